"""The whole trace of a message: over queue managers, publications and reports, in one answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mayfly import MQError, QueueManager, QueueSharingGroup
from mayfly.client.connection import Administration, connect
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.facts import MessageTrace, PropertyQuestion
from tests.spec.scene import START_MS

MINUTE_MS = 60_000
AT_1_MIN, AT_2_MIN = "2023-11-14 22:14:20.000", "2023-11-14 22:15:20.000"


def run(manager: QueueManager, script: str) -> None:
    result = manager.mqsc(script)
    assert result.ok, result.text


def linked(here: QueueManager, there: QueueManager) -> None:
    """Define and start the channel from one queue manager to the other."""
    name = f"{here.name}.TO.{there.name}"
    run(there, f"DEFINE CHANNEL({name}) CHLTYPE(RCVR) TRPTYPE(LOCAL)")
    run(
        here,
        f"DEFINE QLOCAL({there.name}) USAGE(XMITQ)\n"
        f"DEFINE CHANNEL({name}) CHLTYPE(SDR) TRPTYPE(LOCAL) XMITQ({there.name}) "
        f"CONNAME({there.name})\nSTART CHANNEL({name})",
    )


@pytest.fixture
def pair(clock: VirtualClock) -> Iterator[tuple[QueueManager, QueueManager]]:
    """QM1 with ORDERS, which leads to IN of QM2, and REPLIES; channels run both ways."""
    with QueueManager("QM1", clock=clock) as one, QueueManager("QM2", clock=clock) as two:
        linked(one, two)
        linked(two, one)
        run(one, "DEFINE QLOCAL(REPLIES)\nDEFINE QREMOTE(ORDERS) RNAME(IN) RQMNAME(QM2)")
        run(two, "DEFINE QLOCAL(IN)")
        yield one, two


def steps(found: MessageTrace) -> list[tuple[int, str, str, str]]:
    """Return moment since the start, queue manager, event and queue of each step."""
    return [(s.at_ms - START_MS, s.queue_manager, s.what, s.queue) for s in found.steps]


def settled(clock: VirtualClock) -> None:
    """Let channels carry what waits for them."""
    clock.advance(0)


# Over a channel


def test_E19_a_message_that_expires_at_its_destination_and_its_report_are_one_story(
    pair: tuple[QueueManager, QueueManager], clock: VirtualClock
) -> None:
    one, two = pair
    with one.session("anna", program="shop") as session:
        msg_id = session.put(
            "ORDERS",
            b"x",
            time_to_live_ms=MINUTE_MS,
            report=c.MQRO_EXPIRATION,
            reply_to_q="REPLIES",
        )
    clock.advance(MINUTE_MS)
    with two.session() as session:
        assert session.get("IN") is None
    settled(clock)
    found = one.traces.of(msg_id)
    assert found.sentence == (
        f"It expired on IN@QM2 at {AT_1_MIN}, 1 min after its put, and nobody had got it; its "
        "report is on REPLIES."
    )
    assert steps(found) == [
        (0, "QM1", "put", "QM2"),
        (0, "QM1", "transmitted", "QM2"),
        (0, "QM2", "arrived", "IN"),
        (MINUTE_MS, "QM2", "expired", "IN"),
        (MINUTE_MS, "QM2", "report", "QM1"),
        (MINUTE_MS, "QM2", "report transmitted", "QM1"),
        (MINUTE_MS, "QM1", "arrived", "REPLIES"),
        (MINUTE_MS, "QM1", "report available", "REPLIES"),
    ]
    assert found.queue_manager == "QM1"
    assert found.steps[0].user == "anna"
    # Asked at the other end, its queues are the near ones.
    assert two.traces.of(msg_id).sentence == (
        f"It expired on IN at {AT_1_MIN}, 1 min after its put, and nobody had got it; its report "
        "is on REPLIES@QM1."
    )
    assert steps(two.traces.of(msg_id)) == steps(found)
    with one.session() as session:
        assert session.get("REPLIES") is not None
    assert one.traces.of(msg_id).sentence.endswith("; its report was got from REPLIES.")
    assert steps(one.traces.of(msg_id))[-1] == (MINUTE_MS, "QM1", "report got", "REPLIES")


def test_X3_a_message_that_expires_elsewhere_for_a_cap_here_is_told_so(
    pair: tuple[QueueManager, QueueManager], clock: VirtualClock
) -> None:
    """The life that is left travels, and the trace knows the object that has shortened it."""
    one, two = pair
    one.mqsc("ALTER QREMOTE(ORDERS) CAPEXPRY(600)")
    with one.session() as session:
        sent = [session.put("ORDERS", b"x")]
        settled(clock)
        two.mqsc("ALTER QLOCAL(IN) CAPEXPRY(300)")
        sent.append(session.put("ORDERS", b"x"))
        settled(clock)
    clock.advance(MINUTE_MS - 1)
    with two.session() as session:
        assert [m.msg_id for m in session.browse("IN")] == sent[:1]
        clock.advance(1)
        assert session.get("IN") is None
    first, second = (two.traces.of(msg_id) for msg_id in sent)
    assert first.sentence == (
        f"It expired on IN at {AT_1_MIN} because remote definition ORDERS@QM1 caps lives at 1 min; "
        "it asked for no report."
    )
    assert " because queue IN caps lives at 30 s; " in second.sentence
    # What the ledgers say is told as it is.
    assert [entry.capped_by for entry in first.entries] == ["CAPEXPRY(600) of QREMOTE(ORDERS)", ""]


@pytest.mark.parametrize("persistent", [False, True])
def test_E19_a_report_that_waits_for_its_channel_is_on_its_way(
    pair: tuple[QueueManager, QueueManager], clock: VirtualClock, persistent: bool
) -> None:
    """It is found by what it is about, of which the transmission queue shows nothing."""
    one, two = pair
    run(two, "STOP CHANNEL(QM2.TO.QM1)")
    with one.session() as session:
        msg_id = session.put(
            "ORDERS",
            b"x",
            time_to_live_ms=MINUTE_MS,
            persistent=persistent,
            report=c.MQRO_EXPIRATION,
            reply_to_q="REPLIES",
        )
    clock.advance(MINUTE_MS)
    with two.session() as session:
        assert session.get("IN") is None
    for manager, queue in ((one, "QM1@QM2"), (two, "QM1")):
        found = manager.traces.of(msg_id)
        assert found.sentence.endswith(
            f"; its report is on its way to REPLIES@QM1: it waits on {queue}."
        )
        assert found.entries[-1].body_bytes == 0
        assert (found.entries[-1].relation, found.entries[-1].reason) == (
            "report",
            c.MQFB_EXPIRATION,
        )
    run(two, "START CHANNEL(QM2.TO.QM1)")
    settled(clock)
    assert one.traces.of(msg_id).sentence.endswith("; its report is on REPLIES.")


def test_E23_a_message_in_transit_is_found_by_its_CorrelId(
    pair: tuple[QueueManager, QueueManager],
) -> None:
    one, two = pair
    run(one, "STOP CHANNEL(QM1.TO.QM2)")
    with one.session() as session:
        msg_id = session.put("ORDERS", b"four", correl_id=b"order 17")
    for manager, queue in ((one, "QM2"), (two, "QM2@QM1")):
        found = manager.traces.of(b"order 17")
        assert found.sentence == (
            f"It is on its way to IN@QM2: it waits on {queue}; it never expires."
        )
        assert [(entry.msg_id, entry.body_bytes) for entry in found.entries] == [(msg_id, 4)]
    assert one.why(b"order 17").sentence == one.traces.of(msg_id).sentence


@pytest.mark.parametrize("persistent", [False, True])
def test_a_message_that_was_got_elsewhere_is_told_with_where_it_could_be_got(
    pair: tuple[QueueManager, QueueManager], clock: VirtualClock, persistent: bool
) -> None:
    one, two = pair
    with one.session() as session:
        msg_id = session.put("ORDERS", b"x", correl_id=b"order 17", persistent=persistent)
    settled(clock)
    assert one.traces.of(msg_id).sentence == "It is on IN@QM2 and can be got; it never expires."
    clock.advance(MINUTE_MS)
    with two.session() as session:
        assert session.get("IN") is not None
    # By the CorrelId, too, which neither queue manager alone could follow.
    for asked, manager in ((msg_id, one), (b"order 17", one), (b"order 17", two)):
        found = manager.traces.of(asked)
        place = "IN" if manager is two else "IN@QM2"
        assert found.sentence == (
            f"It was got from {place} at {AT_1_MIN}, 1 min after it could first be got."
        )
        assert steps(found) == [
            (0, "QM1", "put", "QM2"),
            (0, "QM1", "transmitted", "QM2"),
            (0, "QM2", "arrived", "IN"),
            (MINUTE_MS, "QM2", "got", "IN"),
        ]


def test_a_queue_manager_that_is_not_open_here_leaves_the_story_at_the_channel(
    pair: tuple[QueueManager, QueueManager], clock: VirtualClock
) -> None:
    one, two = pair
    with one.session() as session:
        msg_id = session.put("ORDERS", b"x")
    settled(clock)
    two.close()
    found = one.traces.of(msg_id)
    assert found.sentence == (
        "It was sent to another queue manager at 2023-11-14 22:13:20.000, over transmission queue "
        "QM2 by channel QM1.TO.QM2."
    )


def test_a_queue_manager_that_may_not_be_asked_is_named(
    pair: tuple[QueueManager, QueueManager], clock: VirtualClock
) -> None:
    one, _two = pair
    with one.session() as session:
        msg_id = session.put("ORDERS", b"x")
    settled(clock)
    found = one.traces.of(msg_id, among=(), not_asked=["QM2"])
    assert found.sentence.startswith("It was sent to another queue manager")
    assert found.notes == ("QM2 was not asked: that takes authority.",)


def test_an_id_that_nobody_knows_names_all_that_were_asked(
    pair: tuple[QueueManager, QueueManager],
) -> None:
    one, _two = pair
    found = one.traces.of(b"nobody")
    assert not found.is_known
    assert found.sentence.startswith("QM1 knows no message with this MsgId or CorrelId")
    assert found.sentence.endswith("Asked as well: QM2.")


def test_a_delayed_message_is_followed_over_the_channel(
    pair: tuple[QueueManager, QueueManager], clock: VirtualClock
) -> None:
    one, two = pair
    with one.session() as session:
        msg_id = session.put("ORDERS", b"x", delay_ms=MINUTE_MS)
    clock.advance(MINUTE_MS)
    settled(clock)
    with two.session() as session:
        assert session.get("IN") is not None
    assert steps(one.traces.of(msg_id))[-1] == (MINUTE_MS, "QM2", "got", "IN")
    assert one.traces.of(msg_id).sentence.startswith("It was got from IN@QM2")


def test_a_message_that_no_queue_took_is_a_dead_letter_over_there(
    pair: tuple[QueueManager, QueueManager], clock: VirtualClock
) -> None:
    one, two = pair
    run(two, "DEFINE QLOCAL(DEAD)\nALTER QMGR DEADQ(DEAD)\nALTER QLOCAL(IN) PUT(DISABLED)")
    with one.session() as session:
        msg_id = session.put("ORDERS", b"x")
    # The channel tries ten times, a second apart.
    clock.advance(MINUTE_MS)
    assert one.traces.of(msg_id).sentence == (
        "It is a dead letter on DEAD@QM2: MQRC_PUT_INHIBITED kept it from IN; it never expires."
    )


# Publications


def test_copies_of_a_publication_are_counted_at_all_queue_managers(
    clock: VirtualClock,
) -> None:
    with QueueManager("TOP", clock=clock) as top, QueueManager("LEFT", clock=clock) as left:
        linked(top, left)
        linked(left, top)
        run(top, "ALTER QMGR PSMODE(ENABLED)")
        run(left, "ALTER QMGR PSMODE(ENABLED) PARENT(TOP)")
        for manager, queue in ((top, "HERE"), (top, "ALSO"), (left, "THERE")):
            run(manager, f"DEFINE QLOCAL({queue})")
            run(manager, f"DEFINE SUB({queue}) TOPICSTR('news') DEST({queue})")
        settled(clock)
        with top.session("anna") as session:
            msg_id = session.publish("news", b"x").msg_id
            assert session.get("HERE") is not None
        settled(clock)
        found = top.traces.of(msg_id)
        assert found.sentence == (
            "3 messages have this MsgId: 1 was got from HERE, 1 can be got from ALSO, 1 can be got "
            "from THERE@LEFT."
        )
        [published] = [step for step in found.steps if step.what == "published"]
        assert published.text.startswith("news: 3 messages, by anna, ")


# A queue-sharing group


def test_a_message_on_a_shared_queue_is_told_once(clock: VirtualClock) -> None:
    with ExitStack() as stack:
        group = stack.enter_context(QueueSharingGroup("QSG1", clock=clock))
        one, two = (
            stack.enter_context(QueueManager(name, clock=clock, sharing_group=group))
            for name in ("QM1", "QM2")
        )
        run(one, "DEFINE QLOCAL(ORDERS) QSGDISP(SHARED)")
        with one.session() as session:
            msg_id = session.put("ORDERS", b"x")
        found = two.traces.of(msg_id)
        assert [(entry.queue_manager, entry.queue) for entry in found.entries] == [
            ("QSG1", "ORDERS")
        ]
        with two.session() as session:
            assert session.get("ORDERS") is not None
        found = one.traces.of(msg_id)
        assert [(entry.queue_manager, entry.state) for entry in found.entries] == [("QSG1", "got")]


# Over a connection


def test_a_connection_asks_all_queue_managers_of_its_process(
    pair: tuple[QueueManager, QueueManager], clock: VirtualClock
) -> None:
    one, _two = pair
    with one.session() as session:
        msg_id = session.put("ORDERS", b"x", properties={"order": 17})
    settled(clock)
    connection = connect("QM1")
    try:
        assert Administration(connection.call).traces.of(msg_id.hex()) == one.traces.of(msg_id)
        assert Administration(connection.call).why(msg_id) == one.why(msg_id)
        question = PropertyQuestion("order", "17", START_MS, START_MS + 1, 5)
        found = Administration(connection.call).traces.with_property(question)
        assert found == one.traces.with_property(question)
        assert [trace.asked_id for trace in found.traces] == [msg_id]
    finally:
        connection.close()


def test_2035_a_user_of_limited_authority_hears_no_story(
    tmp_path: Path, clock: VirtualClock
) -> None:
    with QueueManager("QM1", tmp_path, clock) as manager:
        run(manager, "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT, DSP)")
        connection = connect("QM1", "bob")
        try:
            with pytest.raises(MQError) as error:
                Administration(connection.call).traces.of(b"x")
        finally:
            connection.close()
        assert error.value.reason == rc.MQRC_NOT_AUTHORIZED


# By a property


def found_ids(manager: QueueManager, name: str, value: str, **more: int) -> list[bytes]:
    """Return the ids of the traces of messages with a property."""
    found = manager.traces.with_property(PropertyQuestion(name, value, **more))
    assert all(trace.is_known for trace in found.traces)
    return [trace.asked_id for trace in found.traces]


def test_messages_are_found_by_a_property_wherever_they_are(
    pair: tuple[QueueManager, QueueManager], clock: VirtualClock
) -> None:
    """On a queue, delayed, in transit, a dead letter, locked; on disk or not; here or there."""
    one, two = pair
    run(one, "STOP CHANNEL(QM1.TO.QM2)\nDEFINE QLOCAL(DEAD)\nALTER QMGR DEADQ(DEAD)")
    run(one, "DEFINE QLOCAL(LATER)")
    order = {"order": 17, "express": True}
    with one.session() as session, two.session() as other, one.session(transacted=True) as unit:
        ids = [
            session.put("REPLIES", b"x", properties=order, persistent=True),
            session.put("REPLIES", b"x", properties=order, persistent=False),
            session.put("REPLIES", b"x", delay_ms=MINUTE_MS, properties=order),
            session.put("ORDERS", b"x", properties=order),
            session.put("LATER", b"x", delay_ms=1, properties=order),
            other.put("IN", b"x", properties=order),
        ]
        session.put("REPLIES", b"x", properties={"order": 18})
        session.put("REPLIES", b"order 17")
        run(one, "ALTER QLOCAL(LATER) PUT(DISABLED)")
        clock.advance(1)
        assert one.curdepth("DEAD") == 1
        assert unit.get("REPLIES") is not None
        assert sorted(found_ids(one, "order", "17")) == sorted(ids)
        assert sorted(found_ids(one, "express", "true")) == sorted(ids)
        assert found_ids(one, "express", "True") == found_ids(one, "colour", "17") == []
        assert len(found_ids(two, "order", "17", limit=1)) == 1
        unit.backout()
    found = one.traces.with_property(PropertyQuestion("order", "17", limit=2))
    assert (len(found.traces), found.is_cut) == (2, True)
    assert "Messages that have ended are not among them" in found.notes[0]


def test_a_property_is_looked_for_within_a_range_of_time(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    run(queue_manager, "DEFINE QLOCAL(Q1)")
    with queue_manager.session() as session:
        ids = []
        for _ in range(3):
            ids.append(session.put("Q1", b"x", properties={"order": 17}))
            clock.advance(1_000)
    ranges = [
        (None, None, [2, 1, 0]),
        (START_MS, START_MS + 2_000, [1, 0]),
        (START_MS + 1, None, [2, 1]),
        (START_MS + 1_000, START_MS + 1_001, [1]),
        (None, START_MS, []),
    ]
    for from_ms, before_ms, places in ranges:
        found = queue_manager.traces.with_property(
            PropertyQuestion("order", "17", from_ms, before_ms)
        )
        assert [trace.asked_id for trace in found.traces] == [ids[place] for place in places]


@pytest.mark.parametrize(
    "question",
    [
        PropertyQuestion("order", "17", limit=0),
        PropertyQuestion("order", "17", limit=101),
        PropertyQuestion("order", "17", from_ms=START_MS, before_ms=START_MS),
    ],
)
def test_2046_a_question_that_makes_no_sense_is_refused(
    queue_manager: QueueManager, question: PropertyQuestion
) -> None:
    with pytest.raises(MQError) as error:
        queue_manager.traces.with_property(question)
    assert error.value.reason == rc.MQRC_OPTIONS_ERROR


def test_more_messages_than_one_step_looks_at_are_searched(
    queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every edge of a step, and up to the bound of one question."""
    monkeypatch.setattr(
        "mayfly.engine.trace.sources.LAST_OF_STEP",
        "SELECT max(k), count(*) FROM (SELECT k FROM message WHERE k > ? ORDER BY k LIMIT 3)",
    )
    run(queue_manager, "DEFINE QLOCAL(Q1)")
    with queue_manager.session() as session:
        ids = [session.put("Q1", b"x", properties={"number": n}) for n in range(10)]
    for number, msg_id in enumerate(ids):
        assert found_ids(queue_manager, "number", str(number)) == [msg_id]
    monkeypatch.setattr("mayfly.engine.trace.sources.MAX_ROWS", 6)
    found = queue_manager.traces.with_property(PropertyQuestion("number", "9"))
    assert (found.traces, found.is_cut) == ((), True)
