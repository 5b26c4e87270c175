"""Why a message is not there: one answer from queues, delayed messages, claims, units, ledger."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import MQError, QueueManager
from mayfly.engine import PutRequest, Session
from mayfly.engine.api.bulk import ClaimLimit as Limit
from mayfly.lifetime.life import State
from mayfly.lifetime.times import spelled_moment
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.services.dead_letter import DeadLetterHandler, parse_rules
from mayfly.testing import VirtualClock
from mayfly.verbs.facts import MAX_TRACE_ENTRIES, MessageTrace
from mayfly.verbs.schedule import Receipt
from tests.over import NewSession
from tests.spec.remote_scene import network
from tests.spec.scene import STAGING, START_MS, take

MINUTE_MS = 60_000
#: Moments of the virtual clock as they are spelled.
AT_0, AT_1_MIN, AT_2_MIN = (f"2023-11-14 22:{minute}:20.000" for minute in (13, 14, 15))
NEVER = "; it never expires"
EXPIRED = f"It expired on Q1 at {AT_1_MIN}, 1 min after its put, and nobody had got it"


@pytest.fixture
def qm(queue_manager: QueueManager) -> QueueManager:
    """A queue manager with Q1, REPORTS and a dead-letter queue."""
    result = queue_manager.mqsc(
        "DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(REPORTS)\nDEFINE QLOCAL(DEAD)\nALTER QMGR DEADQ(DEAD)"
    )
    assert result.ok, result.text
    return queue_manager


@pytest.fixture
def on_disk(tmp_path: Path, clock: VirtualClock) -> Iterator[QueueManager]:
    with QueueManager("QM1", tmp_path / "QM1", clock) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        yield manager


def told(qm: QueueManager, identifier: bytes) -> str:
    """Return the sentence, and check that the question has changed nothing."""
    before = [(queue.name, queue.depth, queue.present[:]) for queue in qm.engine.registry.queues()]
    first = qm.why(identifier)
    assert [(q.name, q.depth, q.present[:]) for q in qm.engine.registry.queues()] == before
    assert qm.why(identifier) == first
    return first.sentence


def stood(found: MessageTrace) -> list[tuple[str, str, str]]:
    """Return relation, queue and state of each stay."""
    return [(entry.relation, entry.queue, entry.state) for entry in found.entries]


def happened(found: MessageTrace) -> list[tuple[int, str, str]]:
    """Return moment since the start, event and queue of each step."""
    return [(step.at_ms - START_MS, step.what, step.queue) for step in found.steps]


# Alive


def test_a_message_that_can_be_got_is_told_with_its_end(
    qm: QueueManager, session: Session, persistent: bool
) -> None:
    endless = session.put("Q1", b"x", persistent=persistent)
    mortal = session.put("Q1", b"x", persistent=persistent, time_to_live_ms=MINUTE_MS)
    assert told(qm, endless) == f"It is on Q1 and can be got{NEVER}."
    assert told(qm, mortal) == (
        f"It is on Q1 and can be got, until it expires at {AT_1_MIN}, in 1 min."
    )
    [entry] = qm.why(mortal).entries
    assert (entry.persistent, entry.body_bytes, entry.user_identifier) == (persistent, 1, "anna")
    assert (entry.put_ms, entry.expire_at_ms, entry.ended_ms) == (
        START_MS,
        START_MS + MINUTE_MS,
        None,
    )


def test_what_keeps_everybody_from_getting_it_is_named(
    qm: QueueManager, session: Session, new_session: NewSession
) -> None:
    msg_id = session.put("Q1", b"x")
    with new_session(qm, "bob") as other:
        handle = other.open("Q1", c.MQOO_INPUT_EXCLUSIVE)
        assert told(qm, msg_id) == (
            f"It is on Q1, and cannot be got: a program has it open for exclusive input{NEVER}."
        )
        handle.close()
    qm.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)")
    assert told(qm, msg_id) == f"It is on Q1, and cannot be got: GET(DISABLED){NEVER}."


def test_P9_an_open_unit_of_work_is_named_with_its_user_and_program(
    qm: QueueManager, new_session: NewSession
) -> None:
    with new_session(qm, "bob", transacted=True, program="orders") as unit:
        put, delayed = unit.put("Q1", b"x"), unit.put("Q1", b"x", delay_ms=MINUTE_MS)
        assert told(qm, put) == (
            "It was put on Q1 in the open unit of work of bob (orders): nobody else sees it before "
            "the commit."
        )
        assert told(qm, delayed).startswith("It was put for Q1 in the open unit of work of bob")
        assert unit.get("Q1") is not None
        assert stood(qm.why(put)) == [("message", "Q1", State.LOCKED)]
        unit.backout()
        assert not qm.why(put).is_known
        put = unit.put("Q1", b"x", time_to_live_ms=MINUTE_MS)
        unit.commit()
        assert unit.get("Q1") is not None
        assert told(qm, put) == (
            "It is on Q1, and the open unit of work of bob (orders) has it, until it expires at "
            f"{AT_1_MIN}, in 1 min."
        )
        unit.backout()


@pytest.mark.parametrize(
    ("passed_ms", "said"),
    [
        (-1, ": nobody else sees it before the commit."),
        (0, f"; its deadline, {AT_1_MIN}, has passed: the commit discards it."),
        (1, f"; its deadline, {AT_1_MIN}, has passed: the commit discards it."),
    ],
)
def test_E17_an_uncommitted_message_that_has_expired_is_told(
    qm: QueueManager, clock: VirtualClock, passed_ms: int, said: str, new_session: NewSession
) -> None:
    with new_session(qm, "bob", transacted=True, program="orders") as unit:
        msg_id = unit.put("Q1", b"x", time_to_live_ms=MINUTE_MS)
        clock.advance(MINUTE_MS + passed_ms)
        where = "It was put on Q1 in the open unit of work of bob (orders)"
        assert told(qm, msg_id) == where + said


@pytest.mark.parametrize(
    ("passed_ms", "said"),
    [
        (-1, f"has it, until it expires at {AT_1_MIN}, in 1 ms."),
        (0, f"has it; its deadline, {AT_1_MIN}, has passed: given back, it expires."),
        (1, f"has it; its deadline, {AT_1_MIN}, has passed: given back, it expires."),
    ],
)
def test_E15_a_locked_message_does_not_expire(
    qm: QueueManager, clock: VirtualClock, unit: Session, passed_ms: int, said: str
) -> None:
    msg_id = unit.put("Q1", b"x", time_to_live_ms=MINUTE_MS)
    unit.commit()
    assert unit.get("Q1") is not None
    clock.advance(MINUTE_MS + passed_ms)
    assert told(qm, msg_id).endswith(said)


def test_B5_a_browse_lock_is_named(qm: QueueManager, session: Session) -> None:
    msg_id = session.put("Q1", b"x")
    handle = session.open("Q1", c.MQOO_BROWSE)
    take(handle, c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK)
    assert told(qm, msg_id) == f"It is on Q1, and a browse that has locked it has it{NEVER}."


def test_a_claim_is_named_with_its_consumer(
    on_disk: QueueManager, persistent: bool, new_session: NewSession
) -> None:
    with new_session(on_disk) as session:
        msg_id = session.put("Q1", b"x", correl_id=b"c", persistent=persistent)
    claims = on_disk.claims
    standing = claims.attach("billing", "Q1")
    claimed = claims.claim("billing", standing.epoch, standing.closed, Limit(10, 2**20))
    said = f"It is on Q1, and consumer billing, which has claimed it has it{NEVER}."
    assert told(on_disk, msg_id) == told(on_disk, b"c") == said
    claims.end("billing", standing.epoch, claimed.until)
    assert told(on_disk, msg_id).startswith(f"It was got from Q1 at {AT_0}")


# Delayed


@pytest.mark.parametrize("given", [None, b"given"])
def test_D3_a_delayed_message_is_followed_to_its_get(
    qm: QueueManager,
    clock: VirtualClock,
    session: Session,
    persistent: bool,
    given: bytes | None,
) -> None:
    """By the MsgId of its sender, by the one that the staging queue shows, and by its CorrelId."""
    msg_id = session.put(
        "Q1", b"x", delay_ms=MINUTE_MS, persistent=persistent, correl_id=b"c", msg_id=given
    )
    shown = next(iter(session.browse(STAGING))).msg_id
    for identifier in (msg_id, shown, b"c"):
        assert told(qm, identifier) == (
            f"It waits for its delivery time: due on Q1 at {AT_1_MIN}, in 1 min{NEVER}."
        )
    clock.advance(MINUTE_MS - 1)
    assert stood(qm.why(msg_id)) == [("message", STAGING, State.DELAYED)]
    clock.advance(1)
    for identifier in (msg_id, shown, b"c"):
        assert told(qm, identifier) == f"It is on Q1 and can be got{NEVER}."
    clock.advance(MINUTE_MS)
    assert session.get("Q1") is not None
    for identifier in (msg_id, shown, b"c"):
        assert told(qm, identifier) == (
            f"It was got from Q1 at {AT_2_MIN} by anna (mayfly), 1 min after it could first be got."
        )
        assert happened(qm.why(identifier)) == [
            (0, "put", "Q1"),
            (MINUTE_MS, "released", STAGING),
            (2 * MINUTE_MS, "got", "Q1"),
        ]
    assert [entry.body_bytes for entry in qm.why(msg_id).entries] == [1, 1]


def test_D28_a_stopped_delay_processor_is_named(qm: QueueManager, session: Session) -> None:
    msg_id = session.put("Q1", b"x", delay_ms=MINUTE_MS)
    qm.mqsc(f"ALTER QLOCAL({STAGING}) GET(DISABLED)")
    status = qm.delay_processor_status()
    assert status.startswith("stopped: ")
    assert f"; nothing is released by the queue manager: {status}{NEVER}." in told(qm, msg_id)


def test_what_a_pipeline_is_to_release_is_told(
    on_disk: QueueManager, clock: VirtualClock, new_session: NewSession
) -> None:
    on_disk.mqsc("ALTER QMGR DDELAY(SPARK)")
    with new_session(on_disk) as session:
        msg_id = session.put("Q1", b"x", delay_ms=MINUTE_MS, persistent=True)
    clock.advance(MINUTE_MS)
    assert told(on_disk, msg_id) == (
        f"It was due on Q1 at {AT_1_MIN} and waits to be released; nothing is released by the "
        f"queue manager: DDELAY(SPARK) leaves that to a pipeline{NEVER}."
    )
    claims = on_disk.claims
    standing = claims.attach("release", STAGING)
    claims.claim("release", standing.epoch, standing.closed, Limit(10, 2**20))
    assert told(on_disk, msg_id) == (
        f"It was due at {AT_1_MIN} for Q1, and a pipeline that is about to release it has it."
    )


def test_D18_what_expires_while_it_is_delayed(
    qm: QueueManager, clock: VirtualClock, session: Session
) -> None:
    msg_id = session.put("Q1", b"x", delay_ms=MINUTE_MS, time_to_live_ms=MINUTE_MS)
    clock.advance(MINUTE_MS)
    assert told(qm, msg_id) == (
        f"It expired at {AT_1_MIN}, while it waited for its delivery time, {AT_1_MIN}; it asked "
        "for no report."
    )


@pytest.mark.parametrize(
    ("life_ms", "said"),
    [
        (MINUTE_MS, f"while it waited for its delivery time, {AT_1_MIN}"),
        (MINUTE_MS + 1, f"before it was released; it was due at {AT_1_MIN}"),
    ],
)
def test_D18_what_expires_between_its_delivery_time_and_a_late_release(
    qm: QueueManager, clock: VirtualClock, unit: Session, life_ms: int, said: str
) -> None:
    msg_id = unit.put("Q1", b"x", delay_ms=MINUTE_MS, time_to_live_ms=life_ms)
    clock.advance(MINUTE_MS + 1)
    unit.commit()
    end = spelled_moment(START_MS + life_ms)
    assert told(qm, msg_id) == f"It expired at {end}, {said}; it asked for no report."


def test_a_cancelled_message_is_told(
    qm: QueueManager, clock: VirtualClock, session: Session
) -> None:
    msg_id = session.put("Q1", b"x", delay_ms=MINUTE_MS)
    session.schedule.cancel(msg_id)
    clock.advance(MINUTE_MS)
    assert told(qm, msg_id) == (
        f"It was cancelled at {AT_0} by anna (mayfly), before its delivery time, {AT_1_MIN}."
    )


@pytest.mark.parametrize("delay_ms", [0, 1])
def test_the_end_on_its_queue_is_told_where_the_schedule_cannot(
    qm: QueueManager, clock: VirtualClock, session: Session, delay_ms: int
) -> None:
    """A receipt speaks of the wait for a delivery time, and of nothing that came afterwards."""
    msg_id = session.put("Q1", b"x", delay_ms=delay_ms, time_to_live_ms=MINUTE_MS)
    clock.advance(MINUTE_MS)
    assert session.get("Q1") is None
    receipt = Receipt.ALREADY_RELEASED if delay_ms else Receipt.UNKNOWN
    assert session.schedule.cancel(msg_id) == receipt
    assert told(qm, msg_id) == f"{EXPIRED}; it asked for no report."


# Expired, and the report it owed


@pytest.mark.parametrize("passed_ms", [-1, 0, 1])
def test_E8_an_expired_message_is_told_from_its_very_millisecond(
    qm: QueueManager, clock: VirtualClock, session: Session, persistent: bool, passed_ms: int
) -> None:
    """Asking discards nothing: a get does, and then the ledger tells."""
    msg_id = session.put("Q1", b"x", persistent=persistent, time_to_live_ms=MINUTE_MS)
    clock.advance(MINUTE_MS + passed_ms)
    if passed_ms < 0:
        assert told(qm, msg_id).endswith(f"until it expires at {AT_1_MIN}, in 1 ms.")
        return
    assert told(qm, msg_id) == (
        f"It expired on Q1 at {AT_1_MIN} and is still there: the next get, browse or expiry scan "
        "that meets it discards it."
    )
    assert happened(qm.why(msg_id)) == [(0, "put", "Q1"), (MINUTE_MS, "expired", "Q1")]
    assert session.get("Q1") is None
    assert told(qm, msg_id) == f"{EXPIRED}; it asked for no report."
    assert stood(qm.why(msg_id)) == [("message", "Q1", State.EXPIRED)]


@pytest.mark.parametrize(
    "options",
    [0, c.MQRO_PASS_MSG_ID, c.MQRO_PASS_CORREL_ID, c.MQRO_PASS_MSG_ID | c.MQRO_PASS_CORREL_ID],
)
def test_R1_the_report_is_followed_whatever_ids_it_has(
    qm: QueueManager, clock: VirtualClock, session: Session, options: int
) -> None:
    msg_id = session.put(
        "Q1",
        b"x",
        correl_id=b"c",
        time_to_live_ms=MINUTE_MS,
        report=c.MQRO_EXPIRATION | options,
        reply_to_q="REPORTS",
    )
    clock.advance(MINUTE_MS)
    assert told(qm, msg_id).endswith("discards it and sends the report that it owes to REPORTS.")
    assert session.get("Q1") is None
    assert told(qm, msg_id) == f"{EXPIRED}; its report is on REPORTS."
    report = session.get("REPORTS")
    assert report is not None
    assert told(qm, msg_id) == f"{EXPIRED}; its report was got from REPORTS."
    found = qm.why(msg_id)
    assert stood(found) == [("message", "Q1", State.EXPIRED), ("report", "REPORTS", State.GOT)]
    assert found.entries[1].reason == c.MQFB_EXPIRATION


def test_R1_a_report_to_another_queue_manager_is_told_until_it_leaves(
    qm: QueueManager, clock: VirtualClock, session: Session
) -> None:
    qm.mqsc("DEFINE QLOCAL(QM2) USAGE(XMITQ)")
    msg_id = session.put(
        "Q1", b"x", time_to_live_ms=1, report=c.MQRO_EXPIRATION, reply_to_q="BACK@QM2"
    )
    clock.advance(1)
    assert session.get("Q1") is None
    assert qm.curdepth("QM2") == 1
    assert told(qm, msg_id).endswith("; its report is on its way to BACK@QM2: it waits on QM2.")
    assert session.get("QM2") is not None
    assert told(qm, msg_id).endswith("; of the report that it owed to BACK nothing is known here.")


def test_R4_a_report_that_is_a_dead_letter_is_told(
    qm: QueueManager, clock: VirtualClock, session: Session
) -> None:
    qm.mqsc("ALTER QLOCAL(REPORTS) PUT(DISABLED)")
    msg_id = session.put(
        "Q1",
        b"x",
        time_to_live_ms=MINUTE_MS,
        report=c.MQRO_EXPIRATION,
        reply_to_q="REPORTS",
    )
    clock.advance(MINUTE_MS)
    assert session.get("Q1") is None
    assert told(qm, msg_id) == (
        f"{EXPIRED}; its report is a dead letter on DEAD: MQRC_PUT_INHIBITED."
    )
    assert session.get("DEAD") is not None
    assert told(qm, msg_id) == f"{EXPIRED}; its report was got from DEAD."


def test_an_answer_is_told_beside_the_message(qm: QueueManager, session: Session) -> None:
    """A report of another kind, or a reply, which the ledger does not tell apart."""
    request = session.put("Q1", b"x", report=c.MQRO_COD, reply_to_q="REPORTS")
    assert session.get("Q1") is not None
    session.put("REPORTS", b"reply", correl_id=request)
    found = qm.why(request)
    assert found.sentence.startswith("It was got from Q1")
    assert stood(found) == [
        ("message", "Q1", State.GOT),
        ("report", "REPORTS", State.AVAILABLE),
        ("correlated", "REPORTS", State.AVAILABLE),
    ]
    assert found.entries[1].reason == c.MQFB_COD


# Elsewhere


def test_D20_a_dead_letter_is_told_with_reason_and_queue(
    qm: QueueManager, clock: VirtualClock, session: Session
) -> None:
    qm.mqsc("ALTER QLOCAL(Q1) PUT(DISABLED)")
    qm.mqsc("DEFINE QLOCAL(Q2)")
    msg_id = session.put("Q2", b"x", delay_ms=MINUTE_MS)
    qm.mqsc("ALTER QLOCAL(Q2) PUT(DISABLED)")
    clock.advance(MINUTE_MS)
    found = qm.why(msg_id)
    assert found.sentence == (
        f"It is a dead letter on DEAD: MQRC_PUT_INHIBITED kept it from Q2{NEVER}."
    )
    assert happened(found) == [
        (0, "put", "Q2"),
        (MINUTE_MS, "dead-lettered", STAGING),
        (MINUTE_MS, "available", "DEAD"),
    ]
    assert found.entries[-1].reason == rc.MQRC_PUT_INHIBITED


def test_D20_a_dead_letter_can_be_got_from_the_moment_it_became_one(
    qm: QueueManager, clock: VirtualClock, session: Session
) -> None:
    msg_id = session.put("Q1", b"x", delay_ms=MINUTE_MS)
    qm.mqsc("ALTER QLOCAL(Q1) PUT(DISABLED)")
    clock.advance(MINUTE_MS + 1_500)
    assert session.get("DEAD") is not None
    assert told(qm, msg_id).endswith(", 1.5 s after it could first be got.")


def test_Q2_a_dead_letter_is_followed_to_the_queue_it_is_redriven_to(
    qm: QueueManager, clock: VirtualClock, session: Session
) -> None:
    """What its queue was, the ledger tells no more once the dead letter is got."""
    qm.mqsc("DEFINE QLOCAL(Q2)")
    msg_id = session.put("Q2", b"x", delay_ms=MINUTE_MS)
    qm.mqsc("ALTER QLOCAL(Q2) PUT(DISABLED)")
    clock.advance(MINUTE_MS)
    qm.mqsc("ALTER QLOCAL(Q2) PUT(ENABLED)")
    with DeadLetterHandler(qm, parse_rules("ACTION(RETRY)")) as handler:
        handler.run_once()
    found = qm.why(msg_id)
    assert found.sentence == f"It is on Q2 and can be got{NEVER}."
    assert happened(found) == [
        (0, "put", STAGING),
        (MINUTE_MS, "dead-lettered", STAGING),
        (MINUTE_MS, "got", "DEAD"),
        (MINUTE_MS, "put", "Q2"),
        (MINUTE_MS, "available", "Q2"),
    ]


@pytest.mark.parametrize("is_got", [False, True])
def test_of_messages_with_one_MsgId_the_latest_is_told(
    qm: QueueManager, clock: VirtualClock, session: Session, is_got: bool
) -> None:
    session.put("Q1", b"1", msg_id=b"twice")
    assert session.get("Q1") is not None
    clock.advance(MINUTE_MS)
    session.put("Q1", b"2", msg_id=b"twice")
    if is_got:
        assert session.get("Q1") is not None
        assert told(qm, b"twice").startswith(f"It was got from Q1 at {AT_1_MIN}")
    else:
        assert told(qm, b"twice") == f"It is on Q1 and can be got{NEVER}."
    assert len(qm.why(b"twice").entries) == 2


def test_E23_a_message_in_transit_is_found_by_the_MsgId_of_its_sender(
    qm: QueueManager, session: Session
) -> None:
    network(qm)
    msg_id = session.put("ORDERS", b"x", time_to_live_ms=MINUTE_MS)
    assert told(qm, msg_id) == (
        "It is on its way to Q.REMOTE@QM2: it waits on QM2, until it expires at "
        f"{AT_1_MIN}, in 1 min."
    )
    assert session.get("QM2") is not None
    assert stood(qm.why(msg_id)) == [("message", "QM2", State.GOT)]


def test_copies_of_a_publication_are_told_one_by_one(qm: QueueManager, session: Session) -> None:
    qm.mqsc("DEFINE TOPIC(NEWS) TOPICSTR('news')")
    for name in ("Q1", "REPORTS"):
        qm.mqsc(f"DEFINE SUB(S.{name}) TOPICOBJ(NEWS) DEST({name})")
    msg_id = session.publish("news", b"x").msg_id
    assert session.get("Q1") is not None
    assert told(qm, msg_id) == (
        "2 messages have this MsgId: 1 was got from Q1, 1 can be got from REPORTS."
    )


# By CorrelId


def test_a_CorrelId_of_one_message_leads_to_all_of_it(
    qm: QueueManager, clock: VirtualClock, session: Session
) -> None:
    session.put(
        "Q1",
        b"x",
        correl_id=b"order 17",
        delay_ms=1,
        time_to_live_ms=MINUTE_MS,
        report=c.MQRO_EXPIRATION,
        reply_to_q="REPORTS",
    )
    clock.advance(MINUTE_MS)
    assert session.get("Q1") is None
    found = qm.why(b"order 17")
    assert found.sentence == f"{EXPIRED}; its report is on REPORTS."
    assert [queue for _relation, queue, _state in stood(found)] == [STAGING, "Q1", "REPORTS"]


def test_a_CorrelId_of_many_counts_them_and_is_cut(qm: QueueManager, session: Session) -> None:
    for _ in range(2):
        session.put("Q1", b"x", correl_id=b"all")
    assert session.get("Q1") is not None
    found = qm.why(b"all")
    assert found.sentence == (
        "2 messages have this CorrelId: 1 was got from Q1, 1 can be got from Q1."
    )
    assert not found.is_cut
    ids = [step.text[:54] for step in found.steps if step.what == "correlated"]
    assert ids == [f"MsgId {entry.msg_id.hex()}" for entry in found.entries]
    for _ in range(MAX_TRACE_ENTRIES):
        session.put("Q1", b"x", correl_id=b"all")
    found = qm.why(b"all")
    assert (found.is_cut, len(found.entries)) == (True, MAX_TRACE_ENTRIES + 1)
    assert found.sentence.endswith("from Q1, and there may be more.")


# Nothing, and what is gone


def test_nothing_is_told_with_what_the_ledger_still_knows(
    clock: VirtualClock, tmp_path: Path, new_session: NewSession
) -> None:
    def made(**settings: int) -> QueueManager:
        named = {name.replace("_", ".", 1): value for name, value in settings.items()}
        return QueueManager("QM1", tmp_path, clock, settings=named)

    with made() as qm, new_session(qm) as session:
        assert f"back to its first row of {AT_0}." in qm.why(b"x").sentence
        qm.mqsc("DEFINE QLOCAL(Q1)")
        gone = session.put("Q1", b"x", persistent=True)
        session.get("Q1")
        assert qm.why(gone).is_known
        clock.advance(MINUTE_MS)
    with made(ledger_retention_count=2) as qm, new_session(qm) as session:
        for _ in range(3):
            kept = session.put("Q1", b"x", persistent=True)
            session.get("Q1")
        clock.advance(MINUTE_MS)
        found = qm.why(gone)
        assert not found.is_known
        assert f"; of what ended before {AT_1_MIN} the ledger tells no more." in found.sentence
        assert qm.why(kept).is_known
        assert found.ledger_position is not None
        assert found.ledger_position > 1


@pytest.mark.parametrize(
    ("identifier", "said"),
    [
        (b"AMQ QM7         " + bytes(8), "Queue manager QM7 has made this id: ask there."),
        (b"AMQ QM7    \x01" + bytes(12), "Queue manager QM7 has made this id: ask there."),
        (b"AMQ QM1         " + bytes(8), "The id was made here: its put may have been backed out"),
    ],
)
def test_an_unknown_id_tells_who_made_it(qm: QueueManager, identifier: bytes, said: str) -> None:
    assert said in told(qm, identifier)


def test_G9_a_message_lost_at_a_restart_is_told(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path, clock) as qm, new_session(qm) as session:
        qm.mqsc("DEFINE QLOCAL(Q1)")
        lost = session.put("Q1", b"x", persistent=False)
        kept = session.put("Q1", b"x", persistent=True)
    with QueueManager("QM1", tmp_path, clock) as qm:
        assert qm.why(lost).sentence == (
            f"It was not persistent, and Q1 lost it when the queue manager ended at {AT_0}."
        )
        assert qm.why(kept).sentence == f"It is on Q1 and can be got{NEVER}."
        assert "1 non-persistent messages ended with a restart" in qm.why(b"no").sentence


@pytest.mark.in_process
def test_a_cleared_message_is_told(qm: QueueManager, session: Session) -> None:
    msg_id = session.put("Q1", b"x")
    qm.mqsc("CLEAR QLOCAL(Q1)")
    assert told(qm, msg_id) == f"It was removed at {AT_0}, when Q1 was cleared or deleted."


def test_an_id_is_asked_for_as_it_was_printed(qm: QueueManager, session: Session) -> None:
    msg_id = session.put("Q1", b"x")
    found = qm.why(msg_id)
    assert qm.why(msg_id.hex()) == qm.why(f"ID:{msg_id.hex()}") == found
    assert found.is_known


@pytest.mark.parametrize("identifier", [b"", bytes(24), bytes(25), "xyz", "00"])
def test_2026_what_is_no_id_is_refused(qm: QueueManager, identifier: bytes | str) -> None:
    with pytest.raises(MQError) as error:
        qm.why(identifier)
    assert error.value.reason == rc.MQRC_MD_ERROR


@pytest.mark.parametrize(
    "searched", [50, pytest.param(50_000, marks=[pytest.mark.slow, pytest.mark.soak])]
)
def test_the_oldest_life_of_a_long_ledger_is_found(
    qm: QueueManager, new_session: NewSession, monkeypatch: pytest.MonkeyPatch, searched: int
) -> None:
    """It is searched in parts of so many rows: one at the edge of a part is not missed."""
    monkeypatch.setattr("mayfly.store.ledger.SEARCHED_ROWS", searched)
    ids = []
    with new_session(qm, transacted=True) as unit:
        for _ in range(102):
            for _ in range(searched // 50):
                ids.append(unit.put("Q1", b""))
                assert unit.get("Q1") is not None
            unit.commit()
    assert qm.ledger.last_position() > 2 * searched
    edges = [1, searched, searched + 1, 2 * searched, 2 * searched + 1]
    places = {place + step for place in edges for step in (-1, 0)} | {len(ids) - 1}
    for place in places if searched > 50 else range(len(ids)):
        assert qm.why(ids[place]).is_known, place


@pytest.mark.parametrize("data_format", ["MQDEAD", "MQXMIT", "MQHDDLY", "MQHRF2"])
@pytest.mark.parametrize("body", [b"", b"\0", b"DLH \xff\xff\xff\xff" + bytes(200)])
def test_a_message_with_a_header_that_is_none_is_found(
    qm: QueueManager, data_format: str, body: bytes
) -> None:
    with qm.session() as session:
        queue = session.open("Q1", c.MQOO_OUTPUT)
        queue.put(body, PutRequest(Descriptor(format=data_format)))
        [message] = session.browse("Q1")
    assert "is on Q1" in told(qm, message.msg_id)


@pytest.mark.slow
def test_a_message_is_known_while_it_moves(on_disk: QueueManager, new_session: NewSession) -> None:
    """Between queue and ledger it is never lost from sight, whenever somebody asks."""
    done, failed = threading.Event(), list[bytes]()
    current: list[bytes] = []

    def ask() -> None:
        while not done.is_set():
            failed.extend(msg_id for msg_id in current[-1:] if not on_disk.why(msg_id).is_known)

    asker = threading.Thread(target=ask)
    asker.start()
    with new_session(on_disk) as session:
        for _ in range(300):
            current.append(session.put("Q1", b"x", persistent=True))
            assert session.get("Q1") is not None
    done.set()
    asker.join()
    assert not failed
