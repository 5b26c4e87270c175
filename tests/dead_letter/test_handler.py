"""What a rule does to a dead letter: exactly that, exactly once, with its life running on."""

from __future__ import annotations

from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import put_dead_letter as engine_bury
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQUS_TRANSMISSION
from mayfly.mqi.errors import MQError
from mayfly.mqi.structures import DLH
from mayfly.services.dead_letter import DeadLetterHandler, dead_letter_of, parse_rules
from mayfly.services.dead_letter.handler import LIMIT, RequeuedLetters, RuleState
from mayfly.testing import VirtualClock
from tests.dead_letter.scene import (
    LETTER,
    PLAIN,
    bury_whole,
    handled,
    handler,
    named,
    on,
    put_dead_letter,
)
from tests.spec.remote_scene import embedded
from tests.spec.report_scene import BODY, CORREL_ID, MSG_ID
from tests.spec.scene import (
    DEAD,
    REPLIES,
    STAGING,
    START_MS,
    V2,
    alias,
    alter,
    alter_manager,
    bodies,
    lives,
    local,
    put_md,
    refused,
)

RETRY = "ACTION(RETRY)"
EXPIRY_REPORT = LETTER._replace(report=c.MQRO_EXPIRATION)


def put_ebcdic_letter(
    qm: QueueManager, codec: str, ccsid: int, *, big_endian: bool, data_ccsid: int, queue: str
) -> None:
    """Put a dead letter as z/OS writes it: texts of the MQDLH in EBCDIC, numbers by Encoding."""
    encoding = c.MQENC_S390 if big_endian else c.MQENC_NATIVE
    header = DLH.pack(
        {
            "Reason": rc.MQRC_Q_FULL,
            "DestQName": queue,
            "DestQMgrName": qm.name,
            "Encoding": c.MQENC_S390,
            "CodedCharSetId": data_ccsid,
            "Format": "MQSTR",
            "PutDate": "20231114",
            "PutTime": "22132000",
        },
        big_endian=big_endian,
    )
    coded, at = b"", 0
    for field in DLH.fields:
        raw = header[at : at + field.length]
        coded += raw.decode("ascii").encode(codec) if field.kind == "char" else raw
        at += field.length
    descriptor = PLAIN._replace(format="MQDEAD", encoding=encoding, coded_char_set_id=ccsid)
    with qm.session() as session:
        put_md(session, DEAD, coded + "Grüße".encode(codec), descriptor)


@pytest.mark.parametrize("big_endian", [True, False])
@pytest.mark.parametrize(
    ("codec", "ccsid", "data_ccsid", "expected"),
    [
        ("cp500", 500, 500, 500),
        ("cp1047", 1047, 1047, 1047),
        ("cp273", 273, c.MQCCSI_INHERIT, 273),
    ],
)
def test_Q1_a_header_in_EBCDIC_is_read_by_its_CodedCharSetId_and_its_Encoding(
    qm: QueueManager, codec: str, ccsid: int, data_ccsid: int, expected: int, *, big_endian: bool
) -> None:
    """As one that comes from z/OS; the data behind it stay in EBCDIC, and say so."""
    for queue in ("Q1", "OTHER"):
        put_ebcdic_letter(
            qm, codec, ccsid, big_endian=big_endian, data_ccsid=data_ccsid, queue=queue
        )
    [first, _second] = on(qm, DEAD)
    letter = dead_letter_of(first)
    assert letter is not None
    assert (letter.reason, letter.target, letter.target_manager) == (2053, "Q1", "QM1")
    assert letter.since_ms == 1_700_000_000_000
    assert handled(qm, "DESTQ(Q1) FORMAT(MQSTR) REASON(MQRC_Q_FULL) ACTION(RETRY)") == {
        "redriven": 1,
        "left": 1,
    }
    [message] = on(qm, "Q1")
    found = message.descriptor
    assert message.body.decode(codec) == "Grüße"
    assert (found.format, found.encoding, found.coded_char_set_id) == (
        "MQSTR",
        c.MQENC_S390,
        expected,
    )
    story = qm.why(first.msg_id)
    assert "Q1" in str(story)


def test_a_header_in_a_character_set_that_is_not_known_is_no_header(qm: QueueManager) -> None:
    put_ebcdic_letter(qm, "cp500", 1389, big_endian=True, data_ccsid=500, queue="Q1")
    [message] = on(qm, DEAD)
    assert dead_letter_of(message) is None
    assert handled(qm, RETRY) == {"without_header": 1}


def test_Q1_retry_restores_what_the_header_keeps_and_Q2_all_else_stays(qm: QueueManager) -> None:
    bury_whole(qm, life_ms=60_000)
    assert handled(qm, RETRY) == {"redriven": 1}
    [message] = on(qm, "Q1")
    found = message.descriptor
    assert (message.body, message.msg_id, message.correl_id) == (BODY, MSG_ID, CORREL_ID)
    assert (found.format, found.encoding, found.coded_char_set_id) == ("MQSTR", 273, 1208)
    assert found == LETTER._replace(
        put_date=found.put_date, put_time=found.put_time, reply_to_q_mgr="QM1"
    )
    assert (message.put_date, message.put_time) == ("20231114", "22132000")
    assert (qm.curdepth(DEAD), qm.curdepth("Q1")) == (0, 1)


def test_Q2_put_date_and_time_stay_those_of_the_first_put(
    qm: QueueManager, clock: VirtualClock
) -> None:
    put_dead_letter(qm)
    clock.advance(90_000_000)
    handled(qm, RETRY)
    [message] = on(qm, "Q1")
    assert (message.put_date, message.put_time) == ("20231114", "22132000")


def test_Q2_forward_keeps_the_header_unless_told_otherwise(qm: QueueManager) -> None:
    bury_whole(qm)
    assert handled(qm, "ACTION(FWD) FWDQ(Q2)") == {"forwarded": 1}
    [message] = on(qm, "Q2")
    letter = dead_letter_of(message)
    assert letter is not None
    assert (message.descriptor.format, message.descriptor.encoding) == ("MQDEAD", c.MQENC_NATIVE)
    assert (letter.reason, letter.target, letter.data) == (rc.MQRC_Q_FULL, "Q1", BODY)
    assert (message.msg_id, message.correl_id) == (MSG_ID, CORREL_ID)


def test_Q1_forward_without_header_restores_as_retry_does(qm: QueueManager) -> None:
    bury_whole(qm)
    assert handled(qm, "ACTION(FWD) FWDQ(Q2) HEADER(NO)") == {"forwarded": 1}
    [message] = on(qm, "Q2")
    assert (message.body, message.descriptor.format, message.descriptor.encoding) == (
        BODY,
        "MQSTR",
        273,
    )


@pytest.mark.parametrize(
    ("to", "queue"),
    [
        ("FWDQ(Q2)", "Q2"),
        ("FWDQ(&DESTQ)", "Q1"),
        ("FWDQ(&REPLYQ)", REPLIES),
        ("FWDQ(&DESTQ) FWDQM(&DESTQM)", "Q1"),
        ("FWDQ(&REPLYQ) FWDQM(&REPLYQM)", REPLIES),
        ("FWDQ(Q2) FWDQM(' ')", "Q2"),
        ("FWDQ(Q2) FWDQM(QM1)", "Q2"),
    ],
)
def test_forward_goes_where_rule_header_or_descriptor_say(
    qm: QueueManager, to: str, queue: str
) -> None:
    bury_whole(qm)
    assert handled(qm, f"ACTION(FWD) {to}") == {"forwarded": 1}
    assert [message.msg_id for message in on(qm, queue)] == [MSG_ID]


@pytest.mark.parametrize("action", ["ACTION(RETRY)", "ACTION(FWD) FWDQ(Q1) HEADER(YES)"])
@pytest.mark.parametrize(("after_ms", "present"), [(-1, 1), (0, 0), (1, 0)])
def test_E21_redriven_letter_expires_at_its_original_deadline(
    qm: QueueManager, clock: VirtualClock, action: str, after_ms: int, present: int
) -> None:
    put_dead_letter(qm, life_ms=10_000)
    clock.advance(6_000)
    handled(qm, action)
    [message] = on(qm, "Q1")
    assert (message.expire_at_ms, message.remaining_ms) == (START_MS + 10_000, 4_000)
    clock.advance(4_000 + after_ms)
    assert len(on(qm, "Q1")) == present
    assert qm.curdepth("Q1") == present


def test_E21_unlimited_stays_unlimited_and_a_cap_of_the_target_still_lowers(
    qm: QueueManager,
) -> None:
    put_dead_letter(qm)
    put_dead_letter(qm, target="CAPPED")
    local(qm, "CAPPED", CAPEXPRY=50)
    assert handled(qm, RETRY) == {"redriven": 2}
    assert on(qm, "Q1")[0].expire_at_ms is None
    assert on(qm, "CAPPED")[0].expire_at_ms == START_MS + 5_000


@pytest.mark.parametrize(("at_ms", "redriven"), [(1_999, 1), (2_000, 0), (2_001, 0)])
def test_Q3_E19_expired_letter_reaches_no_rule_and_its_report_is_sent(
    qm: QueueManager, clock: VirtualClock, at_ms: int, redriven: int
) -> None:
    put_dead_letter(qm, EXPIRY_REPORT, life_ms=2_000, msg_id=MSG_ID)
    clock.advance(at_ms)
    assert handled(qm, RETRY) == ({"redriven": 1} if redriven else {})
    assert (qm.curdepth(DEAD), qm.curdepth("Q1"), qm.curdepth(REPLIES)) == (
        0,
        redriven,
        1 - redriven,
    )
    assert [life.outcome for life in lives(qm, DEAD)] == ["got" if redriven else "expired"]
    if not redriven:
        [report] = on(qm, REPLIES)
        assert (report.descriptor.feedback, report.correl_id) == (c.MQFB_EXPIRATION, MSG_ID)


def test_Q3_letter_that_expires_while_it_waits_to_be_tried_again_is_reported_once(
    qm: QueueManager, clock: VirtualClock
) -> None:
    alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    put_dead_letter(qm, EXPIRY_REPORT, life_ms=60_000)
    with handler(qm, "ACTION(RETRY) RETRY(5)") as working:
        assert named(working.run_once()) == {"failed": 1}
        clock.advance(60_000)
        assert named(working.run_once()) == {}
        assert named(working.run_once()) == {}
    assert (qm.curdepth(DEAD), qm.curdepth(REPLIES), qm.curdepth("Q1")) == (0, 1, 0)


def test_discard_ends_one_life_and_sends_nothing(qm: QueueManager) -> None:
    put_dead_letter(qm, LETTER._replace(report=c.MQRO_COD | c.MQRO_EXPIRATION | c.MQRO_EXCEPTION))
    with handler(qm, "ACTION(DISCARD)") as working:
        assert named(working.run_once()) == {"discarded": 1}
        assert named(working.run_once()) == {}
    assert [life.outcome for life in lives(qm, DEAD)] == ["got"]
    assert (qm.curdepth(DEAD), qm.curdepth(REPLIES)) == (0, 0)


def test_ignore_leaves_it_and_the_rules_below_are_not_tried(qm: QueueManager) -> None:
    put_dead_letter(qm)
    with handler(qm, "ACTION(IGNORE)\nACTION(DISCARD)") as working:
        assert named(working.run_once()) == {"ignored": 1}
        assert named(working.run_once()) == {}
    [message] = on(qm, DEAD)
    assert message.backout_count == 0


def test_letters_that_no_rule_takes_are_left_and_the_first_rule_that_does_wins(
    qm: QueueManager,
) -> None:
    for target in ("Q1", "Q2", "OTHER"):
        put_dead_letter(qm, target=target)
    rules = "DESTQ(Q1) ACTION(DISCARD)\nDESTQ(Q?) ACTION(RETRY)"
    assert handled(qm, rules) == {"discarded": 1, "redriven": 1, "left": 1}
    assert (qm.curdepth("Q1"), qm.curdepth("Q2"), qm.curdepth(DEAD)) == (0, 1, 1)


def test_retry_is_tried_n_times_every_interval_then_the_next_rule_has_it(
    qm: QueueManager, clock: VirtualClock
) -> None:
    alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    put_dead_letter(qm)
    rules = "RETRYINT(10)\nACTION(RETRY) RETRY(3)\nDESTQ(Q2) ACTION(DISCARD)\nACTION(FWD) FWDQ(Q2)"
    with handler(qm, rules) as working:
        assert named(working.run_once()) == {"failed": 1}
        clock.advance(9_999)
        assert named(working.run_once()) == {}
        clock.advance(1)
        assert named(working.run_once()) == {"failed": 1}
        clock.advance(10_000)
        assert on(qm, DEAD)[0].backout_count == 0
        assert named(working.run_once()) == {"failed": 1, "forwarded": 1}
        assert dict(working.failures) == {rc.MQRC_PUT_INHIBITED: 3}
    assert (qm.curdepth(DEAD), qm.curdepth("Q1"), qm.curdepth("Q2")) == (0, 0, 1)


def test_each_rule_has_attempts_of_its_own(qm: QueueManager, clock: VirtualClock) -> None:
    alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
    put_dead_letter(qm)
    rules = "ACTION(RETRY) RETRY(2)\nACTION(FWD) FWDQ(Q1) RETRY(2)\nACTION(DISCARD)"
    with handler(qm, rules) as working:
        assert named(working.run_once()) == {"failed": 1}
        clock.advance(60_000)
        assert named(working.run_once()) == {"failed": 2}
        clock.advance(60_000)
        assert named(working.run_once()) == {"failed": 1, "discarded": 1}


def test_retry_succeeds_at_a_later_attempt(qm: QueueManager, clock: VirtualClock) -> None:
    alter(qm, "Q1", MAXDEPTH=0)
    put_dead_letter(qm, life_ms=100_000)
    with handler(qm, "ACTION(RETRY) RETRY(2)") as working:
        assert named(working.run_once()) == {"failed": 1}
        assert dict(working.failures) == {rc.MQRC_Q_FULL: 1}
        alter(qm, "Q1", MAXDEPTH=5)
        clock.advance(60_000)
        assert named(working.run_once()) == {"redriven": 1}
    assert on(qm, "Q1")[0].remaining_ms == 40_000


def test_letter_whose_rules_have_all_failed_stays_and_is_not_tried_again(
    qm: QueueManager, clock: VirtualClock
) -> None:
    put_dead_letter(qm, target="NOWHERE")
    with handler(qm, RETRY) as working:
        assert named(working.run_once()) == {"failed": 1, "left": 1}
        clock.advance(120_000)
        assert named(working.run_once()) == {}
        assert dict(working.failures) == {rc.MQRC_UNKNOWN_OBJECT_NAME: 1}
    assert qm.curdepth(DEAD) == 1


@pytest.mark.parametrize(
    ("rules", "letter", "reason"),
    [
        (RETRY, {"target": ""}, rc.MQRC_UNKNOWN_OBJECT_NAME),
        (RETRY, {"target": "", "target_manager": "QM9"}, rc.MQRC_UNKNOWN_OBJECT_NAME),
        ("ACTION(FWD) FWDQ(SYSTEM.DEFAULT.MODEL.QUEUE)", {}, rc.MQRC_UNKNOWN_OBJECT_NAME),
        (RETRY, {"target_manager": "QM9"}, rc.MQRC_UNKNOWN_REMOTE_Q_MGR),
        ("ACTION(FWD) FWDQ(Q2) FWDQM(QM9)", {}, rc.MQRC_UNKNOWN_REMOTE_Q_MGR),
        ("ACTION(FWD) FWDQ(&REPLYQ)", {}, rc.MQRC_UNKNOWN_OBJECT_NAME),
        (f"ACTION(FWD) FWDQ({DEAD})", {}, rc.MQRC_OPTIONS_ERROR),
        ("ACTION(FWD) FWDQ(ROUND)", {}, rc.MQRC_OPTIONS_ERROR),
    ],
)
def test_what_cannot_be_put_stays_with_the_reason(
    qm: QueueManager, rules: str, letter: dict[str, Any], reason: int
) -> None:
    alias(qm, "ROUND", DEAD)
    put_dead_letter(qm, **letter)
    with handler(qm, rules) as working:
        assert named(working.run_once()) == {"failed": 1, "left": 1}
        assert dict(working.failures) == {reason: 1}
    assert qm.curdepth(DEAD) == 1


@pytest.mark.parametrize(
    ("rules", "letter", "target", "is_whole"),
    [
        (RETRY, {"target_manager": "QM2"}, "Q1", False),
        ("ACTION(FWD) FWDQ(FAR) FWDQM(QM2)", {}, "FAR", True),
        ("ACTION(FWD) FWDQ(FAR) FWDQM(QM2) HEADER(NO)", {}, "FAR", False),
        ("ACTION(FWD) FWDQ(&DESTQ) FWDQM(&DESTQM)", {"target_manager": "QM2"}, "Q1", True),
        ("ACTION(FWD) FWDQ(&REPLYQ) FWDQM(&REPLYQM)", {}, REPLIES, True),
    ],
)
def test_E21_E23_letter_for_another_queue_manager_travels_with_what_is_left(
    qm: QueueManager,
    clock: VirtualClock,
    rules: str,
    letter: dict[str, Any],
    target: str,
    is_whole: bool,
) -> None:
    local(qm, "QM2", USAGE=MQUS_TRANSMISSION)
    put_dead_letter(
        qm, LETTER._replace(reply_to_q_mgr="QM2"), BODY, life_ms=10_000, msg_id=MSG_ID, **letter
    )
    clock.advance(6_000)
    assert handled(qm, rules) in ({"redriven": 1}, {"forwarded": 1})
    [travelling] = on(qm, "QM2")
    letter_inside = embedded(travelling)
    assert letter_inside.remote == (target, "QM2")
    assert (letter_inside.expiry_tenths, travelling.remaining_tenths) == (40, 40)
    assert letter_inside.msg_id == MSG_ID
    assert letter_inside.descriptor.format == ("MQDEAD" if is_whole else "MQSTR")
    assert travelling.body.endswith(BODY)
    assert qm.curdepth(DEAD) == 0


def test_PUTAUT_CTX_asks_for_the_transmission_queue_of_another_queue_manager(
    qm: QueueManager,
) -> None:
    local(qm, "QM2", USAGE=MQUS_TRANSMISSION)
    qm.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('anna') AUTHADD(CONNECT)")
    put_dead_letter(qm, PLAIN._replace(user_identifier="anna"), target_manager="QM2")
    with handler(qm, "ACTION(RETRY) PUTAUT(CTX)") as working:
        assert named(working.run_once()) == {"failed": 1, "left": 1}
        assert dict(working.failures) == {rc.MQRC_NOT_AUTHORIZED: 1}
    qm.mqsc("SET AUTHREC PROFILE(QM2) OBJTYPE(QUEUE) PRINCIPAL('anna') AUTHADD(PUT)")
    assert handled(qm, "ACTION(RETRY) PUTAUT(CTX)") == {"redriven": 1}
    assert qm.curdepth("QM2") == 1


def test_Q2_letter_without_context_stays_without(qm: QueueManager, clock: VirtualClock) -> None:
    put_dead_letter(qm, PLAIN, options=c.MQPMO_NO_CONTEXT)
    clock.advance(5_000)
    assert handled(qm, RETRY) == {"redriven": 1}
    [message] = on(qm, "Q1")
    assert (message.put_date, message.put_time) == ("", "")


def test_message_without_header_or_with_a_damaged_one_is_left_alone(qm: QueueManager) -> None:
    with qm.session() as session:
        put_md(session, DEAD, b"DLH but no header", PLAIN)
        put_md(session, DEAD, b"x" * 200, PLAIN._replace(format="MQDEAD"))
    with handler(qm, "ACTION(DISCARD)") as working:
        assert named(working.run_once()) == {"without_header": 2}
        assert named(working.run_once()) == {}
    assert qm.curdepth(DEAD) == 2


def test_Q1_header_of_the_other_byte_order_is_read(qm: QueueManager) -> None:
    header = DLH.pack({"Reason": 2053, "DestQName": "Q1", "Format": "MQSTR"}, big_endian=True)
    with qm.session() as session:
        put_md(session, DEAD, header + b"data", V2._replace(format="MQDEAD", encoding=273))
    assert handled(qm, "REASON(2053) ACTION(RETRY)") == {"redriven": 1}
    assert on(qm, "Q1")[0].body == b"data"


def test_letters_of_one_msg_id_are_told_apart(qm: QueueManager, clock: VirtualClock) -> None:
    """By their queue, by when they came here, and by the hundredth of a second of their put."""
    for target in ("Q1", "OTHER", "Q1"):
        put_dead_letter(qm, target=target, msg_id=MSG_ID)
    with handler(qm, "DESTQ(OTHER) ACTION(IGNORE)\nACTION(RETRY)") as working:
        assert named(working.run_once()) == {"redriven": 2, "ignored": 1}
        clock.advance(10)
        put_dead_letter(qm, msg_id=MSG_ID)
        assert named(working.run_once()) == {"redriven": 1}


def test_Q4_letter_of_the_delay_processor_is_redriven_at_once(
    qm: QueueManager, clock: VirtualClock
) -> None:
    with qm.session("anna") as session:
        session.put("Q1", b"late", delay_ms=5_000, time_to_live_ms=20_000, persistent=True)
        alter(qm, "Q1", PUT=c.MQQA_PUT_INHIBITED)
        clock.advance(5_000)
        assert (qm.curdepth(DEAD), qm.curdepth("Q1")) == (1, 0)
        alter(qm, "Q1", PUT=c.MQQA_PUT_ALLOWED)
        assert handled(qm, "REASON(MQRC_PUT_INHIBITED) ACTION(RETRY)") == {"redriven": 1}
        [message] = on(qm, "Q1")
        assert (message.remaining_ms, message.descriptor.user_identifier) == (15_000, "anna")
        assert bodies(session, "Q1") == [b"late"]


def test_COA_comes_from_where_the_letter_is_redriven_to(qm: QueueManager) -> None:
    put_dead_letter(qm, LETTER._replace(report=c.MQRO_COA))
    assert qm.curdepth(REPLIES) == 0
    assert handled(qm, RETRY) == {"redriven": 1}
    [report] = on(qm, REPLIES)
    assert report.descriptor.feedback == c.MQFB_COA


def test_COA_is_backed_out_with_an_attempt_that_fails(
    qm: QueueManager, clock: VirtualClock
) -> None:
    alter(qm, "Q1", MAXDEPTH=0)
    put_dead_letter(qm, LETTER._replace(report=c.MQRO_COA))
    assert handled(qm, RETRY) == {"failed": 1, "left": 1}
    assert (qm.curdepth(REPLIES), qm.curdepth(DEAD)) == (0, 1)


def test_letter_that_comes_back_at_once_is_of_the_next_pass(qm: QueueManager) -> None:
    """Without a delay header the delay processor gives it back, in the middle of the pass."""
    for _ in range(2):
        put_dead_letter(qm, target=STAGING)
    put_dead_letter(qm, target="NOWHERE")
    with handler(qm, f"{RETRY} RETRY(2)") as working:
        assert named(working.run_once()) == {"redriven": 2, "failed": 1}
        assert qm.curdepth(DEAD) == 3


def refuse(qm: QueueManager, reason: int = rc.MQRC_Q_FULL) -> int:
    """Let a bridge refuse all there is on Q1 and return how many."""
    with qm.session(transacted=True) as bridge:
        count = 0
        while (message := bridge.get("Q1")) is not None:
            engine_bury(qm.engine, bridge, message, reason)
            count += 1
        bridge.commit()
    return count


def test_a_letter_that_comes_back_has_used_up_an_attempt_and_waits_RETRYINT(
    qm: QueueManager, clock: VirtualClock
) -> None:
    """A catch-all RETRY would send round for ever what its queue's program refuses at once."""
    put_dead_letter(qm)
    with handler(qm, f"RETRYINT(5)\n{RETRY} RETRY(3)\nDESTQ(Q1) ACTION(FWD) FWDQ(Q2)") as working:
        for _ in range(2):
            assert named(working.run_once()) == {"redriven": 1}
            assert refuse(qm) == 1
            clock.advance(4_999)
            assert named(working.run_once()) == {}
            clock.advance(1)
        assert named(working.run_once()) == {"redriven": 1}
        assert refuse(qm) == 1
        assert named(working.run_once()) == {"forwarded": 1}
    assert [qm.curdepth(name) for name in (DEAD, "Q1", "Q2")] == [0, 0, 1]


@pytest.mark.parametrize(("passed_ms", "outcome"), [(9_999, "left"), (10_000, "redriven")])
def test_a_letter_that_comes_back_after_twice_RETRYINT_is_a_new_one(
    qm: QueueManager, clock: VirtualClock, passed_ms: int, outcome: str
) -> None:
    put_dead_letter(qm)
    with handler(qm, f"RETRYINT(5)\n{RETRY}") as working:
        assert named(working.run_once()) == {"redriven": 1}
        clock.advance(passed_ms)
        assert refuse(qm) == 1
        assert named(working.run_once()) == {outcome: 1}


def test_a_letter_that_comes_back_for_another_reason_is_a_new_one(qm: QueueManager) -> None:
    put_dead_letter(qm)
    with handler(qm, f"REASON(MQFB_IMS_ERROR) ACTION(DISCARD)\n{RETRY}") as working:
        assert named(working.run_once()) == {"redriven": 1}
        assert refuse(qm, c.MQFB_IMS_ERROR) == 1
        assert named(working.run_once()) == {"discarded": 1}


def test_letters_that_were_put_elsewhere_are_remembered_for_twice_RETRYINT_only(
    qm: QueueManager, clock: VirtualClock
) -> None:
    with handler(qm, f"RETRYINT(5)\n{RETRY}") as working:
        for passed_ms, count in ((0, 1), (9_999, 2), (1, 2), (10_000, 1)):
            clock.advance(passed_ms)
            put_dead_letter(qm)
            assert named(working.run_once()) == {"redriven": 1}
            assert len(working._returns) == count


@pytest.mark.slow
def test_no_more_letters_are_remembered_than_memory_has_room_for(qm: QueueManager) -> None:
    put_dead_letter(qm)
    letter = dead_letter_of(on(qm, DEAD)[0])
    assert letter is not None
    returns = RequeuedLetters(1_000)
    for reason in range(LIMIT + 10):
        one = letter._replace(header={**letter.header, "Reason": reason})
        returns.note(one, RuleState(), 1, START_MS)
    assert len(returns) == LIMIT


def test_letter_without_a_delay_header_goes_to_the_staging_queue_once(qm: QueueManager) -> None:
    """What the delay processor has refused it would refuse again, for ever."""
    put_dead_letter(qm, target=STAGING)
    with handler(qm, f"WAIT(NO)\n{RETRY}\nACTION(FWD) FWDQ(&DESTQ) HEADER(NO)") as working:
        working.run()
        assert named(working.counts) == {"redriven": 1, "failed": 2, "left": 1}
        assert dict(working.failures) == {rc.MQRC_HEADER_ERROR: 2}
    assert [m.body[-1:] for m in on(qm, DEAD)] == [b"x"]


def test_attempts_are_remembered_of_letters_a_pass_has_not_come_to(
    qm: QueueManager, clock: VirtualClock
) -> None:
    """Letters of higher priority come back before one that is to be tried again."""
    rules = f"RETRYINT(1)\nREASON(MQRC_HEADER_ERROR) ACTION(DISCARD)\n{RETRY} RETRY(3)"
    put_dead_letter(qm, target="NOWHERE")
    with handler(qm, rules) as working:
        assert named(working.run_once()) == {"failed": 1}
        put_dead_letter(qm, PLAIN._replace(priority=9), target=STAGING)
        assert named(working.run_once()) == {"redriven": 1, "discarded": 1}
        for outcome in ({"failed": 1}, {"failed": 1, "left": 1}, {}):
            clock.advance(1_000)
            assert named(working.run_once()) == outcome


def test_letter_that_another_holds_is_not_touched(qm: QueueManager) -> None:
    put_dead_letter(qm)
    with qm.session(transacted=True) as other:
        assert other.get(DEAD) is not None
        assert handled(qm, RETRY) == {}
        other.backout()
    assert handled(qm, RETRY) == {"redriven": 1}


def test_letter_that_another_takes_meanwhile_is_put_nowhere(qm: QueueManager) -> None:
    put_dead_letter(qm, LETTER._replace(report=c.MQRO_COA))
    with handler(qm, RETRY) as working:
        message = working._browse(c.MQGMO_BROWSE_FIRST)
        assert message is not None
        with qm.session() as other:
            other.get(DEAD)
        working._handle(message)
        assert named(working.counts) == {"gone": 1}
        put_dead_letter(qm)
        assert named(working.run_once()) == {"redriven": 1}
    assert (qm.curdepth("Q1"), qm.curdepth(REPLIES)) == (1, 0)


def test_PUTAUT_CTX_puts_with_the_authority_of_whose_message_it_is(qm: QueueManager) -> None:
    qm.mqsc(
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('anna') AUTHADD(CONNECT)\n"
        "SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('anna') AUTHADD(PUT)"
    )
    put_dead_letter(qm, PLAIN._replace(user_identifier="anna"))
    put_dead_letter(qm, PLAIN._replace(user_identifier="berta"))
    rules = "ACTION(RETRY) PUTAUT(CTX)"
    with handler(qm, rules) as working:
        assert named(working.run_once()) == {"redriven": 1, "failed": 1, "left": 1}
        assert dict(working.failures) == {rc.MQRC_NOT_AUTHORIZED: 1}
    assert [m.descriptor.user_identifier for m in on(qm, "Q1")] == ["anna"]
    assert handled(qm, RETRY) == {"redriven": 1}


def test_handler_that_cannot_open_its_queue_leaves_no_session_behind(qm: QueueManager) -> None:
    with pytest.raises(MQError) as caught:
        handler(qm, "ACTION(RETRY)", queue="NOWHERE")
    assert caught.value.reason == rc.MQRC_UNKNOWN_OBJECT_NAME
    # The error keeps the handler, and that its session.
    assert all(session._opened.requester.is_ended for session in qm.engine.sessions)


def test_handler_of_a_user_needs_authority_on_the_queue(qm: QueueManager) -> None:
    qm.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('anna') AUTHADD(CONNECT)")
    with refused(rc.MQRC_NOT_AUTHORIZED):
        handler(qm, RETRY, user="anna")


def test_queue_is_the_one_named_else_that_of_the_table_else_DEADQ(qm: QueueManager) -> None:
    put_dead_letter(qm)
    table = parse_rules(f"INPUTQ(Q2)\n{RETRY}")
    with DeadLetterHandler(qm, table) as working:
        assert named(working.run_once()) == {}
    with DeadLetterHandler(qm, table, queue=DEAD) as working:
        assert named(working.run_once()) == {"redriven": 1}
    alter_manager(qm, DEADQ="")
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        handler(qm, RETRY)


def test_gets_inhibited_end_the_handler_and_lose_nothing(qm: QueueManager) -> None:
    put_dead_letter(qm)
    with handler(qm, RETRY) as working:
        alter(qm, DEAD, GET=c.MQQA_GET_INHIBITED)
        with refused(rc.MQRC_GET_INHIBITED):
            working.run_once()
    assert qm.curdepth(DEAD) == 1
