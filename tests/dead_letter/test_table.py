"""Rule tables: what each keyword takes, what matches, and where a mistake is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly import QueueManager
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.services.dead_letter import Action, RuleTableError, parse_patterns, parse_rules
from tests.dead_letter.scene import LETTER, handled, put_dead_letter


def test_control_data_comes_first_and_has_defaults() -> None:
    table = parse_rules("INPUTQ(DLQ) INPUTQM('qm.1') RETRYINT(5) WAIT(7)\nACTION(IGNORE)")
    assert (table.queue, table.manager) == ("DLQ", "qm.1")
    assert (table.retry_interval_ms, table.wait_ms) == (5_000, 7_000)
    table = parse_rules("ACTION(IGNORE)")
    assert (table.queue, table.manager) == ("", "")
    assert (table.retry_interval_ms, table.wait_ms) == (60_000, c.MQWI_UNLIMITED)
    assert parse_rules("WAIT(YES)\nACTION(IGNORE)").wait_ms == c.MQWI_UNLIMITED
    assert parse_rules("WAIT(NO)\nACTION(IGNORE)").wait_ms == 0


def test_entries_are_read_over_lines_comments_and_commas_in_any_case_and_order() -> None:
    text = (
        "* a comment\n\n   wait(no)\n* another\n"
        "retry(3), reason(mqrc_q_full) +\n* inside\n\n     action(Retry)\n"
        "action(fwd) fwdq('low.case') fwd-\nqm(&REPLYQM) header(no) putaut(ctx)\n"
    )
    first, second = parse_rules(text).rules
    assert (first.action, first.attempt_count, first.line) == (Action.RETRY, 3, 5)
    assert (first.patterns[0].keyword, first.patterns[0].wanted) == ("REASON", 2053)
    assert (second.action, second.queue, second.manager) == (
        Action.FORWARD,
        "low.case",
        "&REPLYQM",
    )
    assert (second.keeps_header, second.puts_as_user, second.line) == (False, True, 9)


def test_lines_go_on_inside_of_quotes_and_blank_controls_are_the_defaults() -> None:
    """The two continuations as IBM shows them: from the first word, from the first column."""
    text = (
        "inputqm(' ') inputq(' ')\n"
        "applname('ABC+\n   D') action(ignore)\n"
        "applname('ABC-\n D') action(ignore)\n"
    )
    table = parse_rules(text)
    assert (table.queue.strip(), table.manager.strip()) == ("", "")
    for rule, name in zip(table.rules, ("ABCD", "ABC D"), strict=True):
        wanted = rule.patterns[0].wanted
        assert isinstance(wanted, re.Pattern)
        assert wanted.fullmatch(name)


def test_defaults_of_a_rule() -> None:
    [rule] = parse_rules("ACTION(FWD) FWDQ(Q1)").rules
    assert (rule.patterns, rule.manager, rule.keeps_header) == ((), "", True)
    assert (rule.puts_as_user, rule.attempt_count) == (False, 1)


@pytest.mark.parametrize(
    ("pattern", "is_taken"),
    [
        ("APPLIDAT(identity)", False),
        ("APPLIDAT('identity')", True),
        ("APPLIDAT('iden*')", True),
        ("APPLNAME('program')", True),
        ("APPLNAME('prog')", False),
        ("APPLNAME('?rogra?')", True),
        ("APPLTYPE(MQAT_JAVA)", True),
        ("APPLTYPE(28)", True),
        ("APPLTYPE(MQAT_UNIX)", False),
        ("DESTQ(Q1)", True),
        ("DESTQ(Q*)", True),
        ("DESTQ(Q1*)", True),
        ("DESTQ(Q1?)", False),
        ("DESTQ(*)", True),
        ("DESTQ('q1')", False),
        ("DESTQM(QM?)", True),
        ("DESTQM(' ')", False),
        ("FEEDBACK(MQFB_NONE)", True),
        ("FEEDBACK(258)", False),
        ("FORMAT(MQSTR)", True),
        ("FORMAT(MQFMT_STRING)", True),
        ("FORMAT('MQDEAD')", False),
        ("MSGTYPE(MQMT_DATAGRAM)", True),
        ("MSGTYPE(MQMT_REQUEST)", False),
        ("PERSIST(MQPER_PERSISTENT)", True),
        ("PERSIST(0)", False),
        ("REASON(MQRC_Q_FULL)", True),
        ("REASON(2053)", True),
        ("REASON(*)", True),
        ("REASON(MQRC_PUT_INHIBITED)", False),
        ("REPLYQ(REP*)", True),
        ("REPLYQ(?*)", True),
        ("REPLYQ(' ')", False),
        ("REPLYQM(QM1)", True),
        ("USERID('carl')", True),
        ("USERID('carl   ')", True),
        ("USERID(CARL)", False),
        ("REASON(2053) DESTQ(Q2)", False),
        ("REASON(2053) DESTQ(Q1)", True),
    ],
)
def test_pattern_takes_a_letter_or_not(qm: QueueManager, pattern: str, is_taken: bool) -> None:
    put_dead_letter(qm, LETTER)
    expected = {"discarded": 1} if is_taken else {"left": 1}
    assert handled(qm, f"{pattern} ACTION(DISCARD)") == expected


def test_text_pattern_is_as_long_as_its_field_and_stars_do_not_count() -> None:
    rules = "FORMAT('A*C*E*G*I*K*M*') APPLIDAT('{0:32}') REPLYQ('{1}*') ACTION(IGNORE)"
    [rule] = parse_rules(rules.format("x", "q" * 48)).rules
    assert len(rule.patterns) == 3


def test_reason_may_be_a_feedback_and_a_sign_in_a_name_stands_for_itself(qm: QueueManager) -> None:
    put_dead_letter(qm, reason=c.MQFB_APPL_CANNOT_BE_STARTED, target="A.B")
    assert handled(qm, "DESTQ(A?C) ACTION(DISCARD)") == {"left": 1}
    assert handled(qm, "DESTQ('A[.]B') ACTION(DISCARD)") == {"left": 1}
    rules = "REASON(MQFB_APPL_CANNOT_BE_STARTED) DESTQ(A.B) ACTION(DISCARD)"
    assert handled(qm, rules) == {"discarded": 1}


def test_blanks_at_the_end_of_a_text_do_not_count_those_before_it_do(qm: QueueManager) -> None:
    put_dead_letter(qm, LETTER._replace(user_identifier=" carl    "))
    assert handled(qm, "USERID('carl') ACTION(DISCARD)") == {"left": 1}
    assert handled(qm, "USERID('?carl?') ACTION(DISCARD)") == {"left": 1}
    assert handled(qm, "USERID(' c*l ') ACTION(DISCARD)") == {"discarded": 1}


def matches(pattern: str, text: str) -> bool:
    """The two signs as runmqdlq has them, slow and obvious."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return matches(pattern[1:], text) or (bool(text) and matches(pattern, text[1:]))
    return bool(text) and pattern[0] in ("?", text[0]) and matches(pattern[1:], text[1:])


@pytest.mark.slow
@given(st.text("aB*?[!]-.\\", min_size=1, max_size=8), st.text("aB[!]-.\\\n", max_size=8))
def test_text_pattern_takes_what_its_signs_say_and_nothing_else(sign: str, text: str) -> None:
    found = parse_patterns(f"APPLNAME('{sign}')")
    wanted = [pattern.wanted for pattern in found if isinstance(pattern.wanted, re.Pattern)]
    assert all(one.fullmatch(text) for one in wanted) == matches(sign, text)


def test_pattern_of_many_signs_is_matched_at_once() -> None:
    """Who writes the letter chooses the text: tried one by one, these places are 10 ** 9."""
    [pattern] = parse_patterns(f"APPLNAME('{'*a' * 13}*b')")
    assert isinstance(pattern.wanted, re.Pattern)
    assert pattern.wanted.fullmatch("a" * 28) is None
    assert pattern.wanted.fullmatch("a" * 27 + "b") is not None


def test_blank_pattern_takes_what_is_blank(qm: QueueManager) -> None:
    put_dead_letter(qm, target_manager="")
    assert handled(qm, "DESTQM(' ') REPLYQ(' ') ACTION(RETRY)") == {"redriven": 1}


def test_patterns_alone_are_one_entry_and_nothing_else(qm: QueueManager) -> None:
    """What chooses letters for a redrive must not say what is done to them."""
    assert parse_patterns("") == parse_patterns("DESTQ(*)") == ()
    [reason, target] = parse_patterns("REASON(2053) DESTQ(Q*)")
    assert (reason.keyword, reason.wanted, target.keyword) == ("REASON", 2053, "DESTQ")
    for text, said in (
        ("ACTION(DISCARD)", "line 1, column 1: ACTION(DISCARD) is not a pattern keyword"),
        ("DESTQ(Q1) RETRY(3)", "line 1, column 11: RETRY(3) is not a pattern keyword"),
        ("WAIT(YES)", "line 1, column 1: WAIT(YES) is not a pattern keyword"),
        ("DESTQ(Q1)\nREASON(2053)", "line 2, column 1: patterns are one entry"),
    ):
        with pytest.raises(RuleTableError) as caught:
            parse_patterns(text)
        assert said in str(caught.value)


def test_number_pattern_knows_every_reason_code_by_name() -> None:
    for number, reason in rc.REASONS.items():
        [rule] = parse_rules(f"REASON({reason.name}) ACTION(IGNORE)").rules
        assert rule.patterns[0].wanted == number


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1, column 1: there is no rule"),
        ("WAIT(NO)\n* nothing\n", "line 2, column 1: there is no rule"),
        ("REASON(2053)", "line 1, column 1: this rule has no ACTION"),
        (
            "\n  REASON(2053) ACTION(STOP)",
            "line 2, column 16: ACTION(STOP) is none of DISCARD, IGNORE, RETRY, FWD",
        ),
        ("REASN(1) ACTION(RETRY)", "line 1, column 1: REASN(1) is not a keyword of a rule"),
        ("ACTION(IGNORE)\nWAIT(NO)", "line 2, column 1: WAIT(NO) is not a keyword of a rule"),
        (
            "WAIT(NO) ACTION(RETRY)",
            "line 1, column 10: ACTION(RETRY) is not a keyword of control data",
        ),
        (
            "REASON(2053) +\n   PERSIST(MQFB_COA) ACTION(RETRY)",
            "line 2, column 4: PERSIST(MQFB_COA) is neither a number nor a name in MQPER_",
        ),
        ("REASON(MQRC_Q_FUL) ACTION(RETRY)", "column 1: REASON(MQRC_Q_FUL) names no MQRC_*"),
        ("FORMAT(MQFMT_X) ACTION(RETRY)", "column 1: FORMAT(MQFMT_X) names no MQFMT_*"),
        ("REASON(20*) ACTION(RETRY)", "REASON(20*) is a number or its name; only * alone"),
        ("ACTION(RETRY) RETRY(0)", "RETRY(0) is no whole number from 1 to 999999999"),
        ("ACTION(RETRY) RETRY(1000000000)", "RETRY(1000000000) is no whole number"),
        ("RETRYINT(0)\nACTION(RETRY)", "RETRYINT(0) is no whole number from 1 to 999999999"),
        ("WAIT(X)\nACTION(RETRY)", "WAIT(X) is neither YES, NO nor a number of seconds"),
        ("WAIT(1000000000)\nACTION(RETRY)", "WAIT(1000000000) is no whole number from 0"),
        ("ACTION(FWD)", "column 1: ACTION(FWD) needs FWDQ: where to?"),
        ("ACTION(FWD) FWDQ(' ')", "FWDQ(' ') is neither one name nor &DESTQ, &REPLYQ"),
        ("ACTION(FWD) FWDQ(A*)", "FWDQ(A*) is neither one name nor"),
        ("ACTION(FWD) FWDQ(&DESTQM)", "FWDQ(&DESTQM) is neither one name nor"),
        ("ACTION(FWD) FWDQ(A) FWDQM(&DESTQ)", "FWDQM(&DESTQ) is neither one name nor"),
        ("ACTION(RETRY) HEADER(NO)", "column 15: HEADER(NO) needs ACTION(FWD), not ACTION(RETRY)"),
        ("ACTION(FWD) FWDQ(A) HEADER(X)", "HEADER(X) is none of YES, NO"),
        ("ACTION(RETRY) PUTAUT(ALL)", "PUTAUT(ALL) is none of DEF, CTX"),
        ("ACTION(RETRY) ACTION(RETRY)", "column 15: ACTION(RETRY) stands here for the second"),
        ("DESTQ() ACTION(RETRY)", "column 1: DESTQ() needs a value"),
        ("DESTQ('') ACTION(RETRY)", "column 1: DESTQ('') needs a value; a blank one is"),
        ("DESTQ A ACTION(RETRY)", "column 7: found 'A', expected '(' after the keyword"),
        ("DESTQ(A B) ACTION(RETRY)", "column 9: found 'B', expected ')'; a value with blanks"),
        ("ACTION(RETRY", "column 13: found the end, expected ')'"),
        ("ACTION(", "column 8: found the end, expected a value or ')'"),
        ("FORMAT(MQSTRINGS) ACTION(RETRY)", "FORMAT(MQSTRINGS) is longer than the 8 characters"),
        ("USERID('*twelve*letters?') ACTION(RETRY)", "is longer than the 12 characters of its"),
        ("ACTION(FWD) FWDQ('a b')", "column 13: FWDQ('a b') is neither one name nor &DESTQ"),
        ("ACTION(FWD) FWDQ(A) FWDQM(A@B)", "column 21: FWDQM(A@B) is neither one name nor &DESTQM"),
        ("INPUTQ(*)\nACTION(RETRY)", "line 1, column 1: INPUTQ(*) is neither one name nor ' '"),
        (f"INPUTQM({'Q' * 49})\nACTION(RETRY)", "column 1: INPUTQM(QQQ"),
        ("ACTION(RETRY))", "column 14: found ')', expected a keyword"),
        ("DESTQ('x) ACTION(RETRY)", "column 7: this quote is never closed"),
        ("ACTION(RETRY) +\n", "column 15: the table ends where this line goes on"),
    ],
)
def test_mistake_is_refused_with_line_column_keyword_and_value(text: str, said: str) -> None:
    with pytest.raises(RuleTableError) as caught:
        parse_rules(text)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"line {caught.value.line}, column {caught.value.column}:")
