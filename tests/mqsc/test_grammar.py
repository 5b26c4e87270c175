"""How MQSC is written: folding, quotes, continuation, places of errors."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mayfly.admin.mqsc.grammar import (
    Command,
    MqscSyntaxError,
    Statement,
    format_value,
    parse,
    statements,
)

LINE_TEXT = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))


def only(script: str) -> Statement:
    [statement] = [s for s in statements(script) if s.is_command]
    return statement


def command(script: str) -> Command:
    return parse(only(script))


def value(script: str) -> str:
    values = command(script).parameters[0].values
    assert values is not None
    [token] = values
    return token.text


def problem_of(statement: Statement) -> MqscSyntaxError | None:
    try:
        parse(statement)
    except MqscSyntaxError as error:
        return error
    return None


@given(LINE_TEXT)
def test_a_formatted_value_is_read_back_the_same(text: str) -> None:
    assert value(f"DEFINE QLOCAL(Q) DESCR({format_value(text)}) SHARE") == text


@given(st.integers())
def test_a_formatted_number_needs_no_quotes_and_is_read_back(number: int) -> None:
    assert format_value(number) == str(number)
    assert int(value(f"DEFINE QLOCAL(Q) MAXDEPTH({format_value(number)})")) == number


@given(LINE_TEXT, st.sampled_from("+-"), st.data())
def test_a_command_cut_anywhere_and_continued_is_the_same(
    text: str, sign: str, data: st.DataObject
) -> None:
    whole = f"DEFINE QLOCAL(Q) DESCR({format_value(text)})"
    cut = data.draw(st.integers(1, len(whole) - 1))
    first, second = whole[:cut], whole[cut:]
    # A blank line is skipped, '*' begins a comment, and '+' takes leading blanks away.
    assume(second.strip() and not second.startswith("*"))
    assume(sign == "-" or not second[0].isspace())
    assert only(f"{first}{sign}\n{second}").text == whole


@given(st.text(st.sampled_from("DEFINE QL(Q1)'+-*;,\n\t x")))
def test_any_text_is_a_command_or_a_syntax_error_with_a_place_inside(script: str) -> None:
    for statement in statements(script):
        if not statement.is_command:
            continue
        wrong = problem_of(statement)
        if wrong is None:
            continue
        assert 0 <= wrong.start <= wrong.end <= len(statement.text)
        line, column = statement.place(wrong.start)
        assert 1 <= line <= script.count("\n") + 1
        assert 1 <= column <= len(script.split("\n")[line - 1]) + 1


def test_keywords_and_unquoted_values_fold_to_upper_case_quoted_ones_are_kept() -> None:
    parsed = command("def qLocal(orders.in) Descr('Kept As It Is') boqname(back)")
    assert (parsed.verb.keyword, str(parsed.object)) == ("DEF", "QLOCAL(ORDERS.IN)")
    assert [str(p) for p in parsed.parameters] == ["DESCR('Kept As It Is')", "BOQNAME(BACK)"]


def test_letters_beyond_ascii_do_not_fold() -> None:
    assert value("DEF QL(Q) DESCR(straße)") == "STRAßE"


def test_two_quotes_are_one() -> None:
    assert value("DEF QL(Q) DESCR('it''s ''so''')") == "it's 'so'"


def test_plus_continues_at_the_next_non_blank_and_minus_at_column_1() -> None:
    assert value("DEF QL(Q) DESCR('a+\n   b')") == "ab"
    assert value("DEF QL(Q) DESCR('a-\n   b')") == "a   b"
    assert value("DEF QL(Q) DESCR('a + \n   b')") == "a b"


def test_comments_and_blank_lines_inside_a_continued_command_are_skipped() -> None:
    assert value("DEF QL(Q) +\n* no\n\n  DESCR(x)") == "X"


def test_replace_may_stand_before_the_object() -> None:
    """CSQUTIL MAKEDEF of z/OS writes all its commands so."""
    found = command("DEFINE NOREPLACE -\n QLOCAL('Q1') -\n MAXDEPTH(5)")
    assert (str(found.object), [str(each) for each in found.parameters]) == (
        "QLOCAL(Q1)",
        ["NOREPLACE", "MAXDEPTH(5)"],
    )


def test_an_asterisk_is_a_comment_in_column_1_only() -> None:
    comment, text = statements("* DEF QL(A)\n * DEF QL(A)")
    assert (comment.is_command, text.is_command) == (False, True)


def test_blanks_around_parentheses_and_commas_between_keywords_mean_nothing() -> None:
    assert command("DEF  QL ( Q ) , SHARE,DESCR( 'x' )").parameters[1].keyword == "DESCR"


def test_a_place_is_that_of_the_line_and_column_in_the_script() -> None:
    statement = only("\n* comment\nDEFINE QLOCAL(Q) +\n* more\n   MAXDEPTH(5) -\n  PUT(X)")
    assert statement.place(statement.text.index("DEFINE")) == (3, 1)
    assert statement.place(statement.text.index("MAXDEPTH")) == (5, 4)
    assert statement.place(statement.text.index("PUT")) == (6, 3)


@pytest.mark.parametrize(
    ("script", "wrong", "message"),
    [
        ("DEFINE", "DEFINE", "DEFINE needs an object"),
        ("DEFINE(Q) QLOCAL", "DEFINE(Q)", "DEFINE(Q) is not a command"),
        ("(Q)", "(", "a keyword is missing here"),
        ("DEF QL(Q) 'x'", "'x'", "a keyword is missing here"),
        ("DEF QL(Q)) SHARE", ")", "a keyword is missing here"),
        ("DEF QL(Q) DESCR('x", "'x", "this quote is never closed"),
        ("DEF QL(Q) DESCR(x", "DESCR(x", "the parenthesis of DESCR is not closed"),
        ("DEF QL(Q) DESCR(x(y))", "DESCR(x(", "the parenthesis of DESCR is not closed"),
        ("DEF QL(Q); SHARE", "SHARE", "a command ends at its semicolon"),
        (
            "DEF QL(Q) DESCR(it's)'",
            "it's)'",
            "a value with a quote in it needs quotes around it, and two for one inside",
        ),
        ("DEF QL(Q) +", "DEF QL(Q) ", "the script ends where the command is to go on"),
    ],
)
def test_a_malformed_command_says_what_and_where(script: str, wrong: str, message: str) -> None:
    statement = only(script)
    with pytest.raises(MqscSyntaxError) as caught:
        parse(statement)
    assert str(caught.value) == message
    assert statement.text[caught.value.start : caught.value.end] == wrong
