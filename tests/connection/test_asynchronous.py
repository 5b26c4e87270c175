"""Verbs that end by callback: when they are told what, in which order, and what cancel says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection
from mayfly.client.connection.interface import UnderWay
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.testing import VirtualClock
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery, PutResult, Settlement
from tests.conftest import Connect
from tests.connection.scene import BOTH_WAYS, JOIN_SECONDS, PERSISTENT, VOLATILE, Told, got, put
from tests.facts import wait_until

WAIT = c.MQGMO_WAIT


@pytest.mark.in_process
def test_a_standing_get_is_told_by_whoever_brings_its_message(
    connection: Connection, queue: int
) -> None:
    told = Told()
    under_way = connection.begin(ask.GetAny([queue], WAIT), told)
    assert told.outcomes == []
    put(connection, queue, b"1")
    assert (told.bodies, told.threads) == ([b"1"], [threading.get_ident()])
    assert under_way.cancel() is False


@pytest.mark.in_process
def test_standing_gets_are_served_in_their_order_and_told_in_it(
    connection: Connection, queue: int
) -> None:
    told = Told()
    for _ in range(3):
        connection.begin(ask.GetAny([queue], WAIT), told)
    for number in range(3):
        put(connection, queue, b"%d" % number, options=c.MQPMO_SYNCPOINT)
    assert told.outcomes == []
    connection.call(ask.Commit())
    assert told.bodies == [b"0", b"1", b"2"]


def test_a_cancelled_get_is_never_told_and_leaves_its_message(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    cancelled, told = Told(), Told()
    first = connection.begin(ask.GetAny([queue], WAIT), cancelled)
    connection.begin(ask.GetAny([queue], WAIT), told)
    assert (first.cancel(), first.cancel()) == (True, False)
    put(connection, queue, b"1")
    put(connection, queue, b"2")
    assert (cancelled.outcomes, told.bodies) == ([], [b"1"])
    assert queue_manager.curdepth("Q1") == 1


@pytest.mark.in_process
def test_a_get_without_wait_and_one_whose_time_is_over_say_that_nothing_came(
    connection: Connection, queue: int, clock: VirtualClock
) -> None:
    told = Told()
    connection.begin(ask.GetAny([queue]), told)
    assert told.reasons == [rc.MQRC_NO_MSG_AVAILABLE]
    connection.begin(ask.GetAny([queue], WAIT, wait_ms=5_000), told)
    clock.advance(4_999)
    assert len(told.outcomes) == 1
    clock.advance(1)
    assert told.reasons == [rc.MQRC_NO_MSG_AVAILABLE] * 2


def test_what_is_wrong_is_told_and_not_raised(connection: Connection, queue: int) -> None:
    told = Told()
    connection.begin(ask.GetAny([queue + 1_000_000]), told)
    connection.begin(ask.GetAny([queue], c.MQGMO_BROWSE_NEXT), told)
    connection.begin(ask.Put.of(queue, b"x", Descriptor(priority=-7)), told)
    connection.begin(ask.Settle([99], Settlement.TAKEN), told)
    assert told.wait(4)
    assert told.reasons == [
        rc.MQRC_HOBJ_ERROR,
        rc.MQRC_OPTIONS_ERROR,
        rc.MQRC_PRIORITY_ERROR,
        rc.MQRC_HMSG_ERROR,
    ]


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("handle", rc.MQRC_HOBJ_ERROR),
        ("connection", rc.MQRC_HCONN_ERROR),
        ("manager", rc.MQRC_Q_MGR_STOPPING),
        ("crash", rc.MQRC_CONNECTION_BROKEN),
        ("inhibit", rc.MQRC_GET_INHIBITED),
    ],
)
def test_the_end_of_what_a_get_stands_on_is_told(connect: Connect, end: str, reason: int) -> None:
    told = Told()
    manager = QueueManager("QM2", clock=VirtualClock())
    assert manager.mqsc("DEFINE QLOCAL(Q2)").ok
    connection = connect(manager, None)
    handle = connection.call(ask.Open("Q2", BOTH_WAYS)).handle
    connection.begin(ask.GetAny([handle], WAIT), told)
    ends: dict[str, Callable[[], object]] = {
        "handle": lambda: connection.call(ask.CloseObject(handle)),
        "connection": connection.close,
        "manager": manager.close,
        "crash": manager.crash,
        "inhibit": lambda: manager.mqsc("ALTER QLOCAL(Q2) GET(DISABLED)"),
    }
    ends[end]()
    told.wait()
    assert told.reasons == [reason]
    manager.close()


@pytest.mark.in_process
def test_a_get_on_several_queues_takes_one_message_and_names_its_handle(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q2)").ok
    second, told = connection.call(ask.Open("Q2", BOTH_WAYS)).handle, Told()
    connection.begin(ask.GetAny([queue, second], WAIT), told)
    put(connection, second, b"2")
    put(connection, queue, b"1")
    assert [(d.handle, d.result.message.body) for d in told.deliveries] == [(second, b"2")]
    assert (queue_manager.curdepth("Q1"), queue_manager.curdepth("Q2")) == (1, 0)
    put(connection, second, b"3")
    connection.begin(ask.GetAny([queue, second]), told)
    connection.begin(ask.GetAny([queue, second]), told)
    connection.begin(ask.GetAny([queue, second]), told)
    assert [d.handle for d in told.deliveries] == [second, queue, second]
    assert told.reasons == [rc.MQRC_NO_MSG_AVAILABLE]
    connection.begin(ask.GetAny([]), told)
    assert told.reasons[1:] == [rc.MQRC_HOBJ_ERROR]


def test_a_get_on_several_handles_of_one_queue_takes_one_message(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    """Each handle has its selector; whichever takes the message, the others are asked no more."""
    high, low = (
        connection.call(
            ask.Open("Q1", c.MQOO_INPUT_SHARED, selector=f"JMSPriority {which} 4")
        ).handle
        for which in (">", "<=")
    )
    told = Told()
    for priority, taker in ((1, low), (9, high)):
        connection.begin(ask.GetAny([high, low], WAIT), told)
        put(connection, queue, b"x", descriptor=Descriptor(priority=priority))
        put(connection, queue, b"x", descriptor=Descriptor(priority=priority))
        told.wait(1 + (priority == 9))
        assert told.deliveries[-1].handle == taker
        assert connection.get(queue).message.body == b"x"
    assert not queue_manager.engine.waits.is_waited_on(
        queue_manager.engine.registry.queue("Q1").number
    )


@pytest.mark.parametrize("end", ["cancel", "close", "time"])
def test_a_get_on_several_queues_ends_on_all_of_them(
    queue_manager: QueueManager, connection: Connection, queue: int, clock: VirtualClock, end: str
) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(Q2)").ok
    second, told = connection.call(ask.Open("Q2", BOTH_WAYS)).handle, Told()
    under_way = connection.begin(ask.GetAny([queue, second], WAIT, wait_ms=500), told)
    number = queue_manager.engine.registry.queue("Q2").number
    # Over a socket it has to get there first: from then on it waits.
    wait_until(lambda: queue_manager.engine.waits.is_waited_on(number))
    if end == "cancel":
        assert under_way.cancel()
    elif end == "close":
        connection.call(ask.CloseObject(second))
    else:
        clock.advance(500)
        wait_until(lambda: told.reasons)
    reasons = {"cancel": [], "close": [rc.MQRC_HOBJ_ERROR], "time": [rc.MQRC_NO_MSG_AVAILABLE]}
    assert told.reasons == reasons[end]
    put(connection, queue, b"1")
    assert (told.deliveries, queue_manager.curdepth("Q1")) == ([], 1)
    assert not under_way.cancel()


@pytest.mark.in_process
def test_a_callback_may_call_verbs_and_is_not_called_inside_of_itself(
    connection: Connection, queue: int
) -> None:
    depth, bodies, deepest = 0, [], 0

    def again(outcome: object) -> None:
        nonlocal depth, deepest
        assert isinstance(outcome, Delivery)
        depth += 1
        deepest = max(deepest, depth)
        bodies.append(outcome.result.message.body)
        connection.call(ask.Settle([outcome.number], Settlement.TAKEN))
        connection.begin(ask.GetAny([queue], WAIT), again)
        depth -= 1

    for number in range(500):
        put(connection, queue, b"%d" % number)
    connection.begin(ask.GetAny([queue], WAIT), again)
    assert (bodies, deepest) == ([b"%d" % number for number in range(500)], 1)


@pytest.mark.in_process
def test_a_callback_that_raises_is_logged_and_the_next_is_called(
    connection: Connection, queue: int, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()

    def fail(_outcome: object) -> None:
        raise ValueError("mine")

    connection.begin(ask.GetAny([queue], WAIT), fail)
    connection.begin(ask.GetAny([queue], WAIT), told)
    put(connection, queue, b"1")
    put(connection, queue, b"2")
    assert told.bodies == [b"2"]
    assert "a callback has failed" in caplog.text


def test_a_selector_that_must_look_far_goes_on_in_the_background(
    queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    """Many messages that it refuses stand before the one it takes."""
    picky = connection.call(ask.Open("Q1", c.MQOO_INPUT_SHARED, selector="JMSPriority = 9")).handle
    for number in range(3_000):
        put(connection, queue, b"%d" % number, options=c.MQPMO_SYNCPOINT)
    connection.call(ask.Commit())
    told = Told()
    connection.begin(ask.GetAny([picky], WAIT), told)
    put(connection, queue, b"it", descriptor=Descriptor(priority=9))
    told.wait()
    assert told.bodies == [b"it"]


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "together"])
@pytest.mark.parametrize("descriptor", [VOLATILE, PERSISTENT], ids=["volatile", "persistent"])
def test_puts_are_told_in_their_order_and_there_when_they_are(
    connect: Connect, tmp_path: Path, descriptor: Descriptor, together: bool
) -> None:
    """Those that are put while a transaction is on its way share the next one and its sync."""
    with QueueManager("QM1", tmp_path / "QM1") as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
        connection = connect(manager, None)
        queue, told = connection.call(ask.Open("Q1", BOTH_WAYS)).handle, Told()
        before = manager.engine.store.group.batch_count
        with connection.together() if together else nullcontext():
            for number in range(200):
                connection.begin(ask.Put.of(queue, b"%d" % number, descriptor), told)
        told.wait(200)
        ids = [outcome.msg_id for outcome in told.outcomes if isinstance(outcome, PutResult)]
        with manager.session() as session:
            assert [m.msg_id for m in session.browse("Q1")] == ids
        assert [m.body for m in manager.session().browse("Q1")] == [b"%d" % n for n in range(200)]
        assert manager.engine.store.group.batch_count - before < 100
        connection.close()


def test_each_of_puts_that_are_together_has_its_own_outcome(
    connection: Connection, queue: int, queue_manager: QueueManager
) -> None:
    assert queue_manager.mqsc("ALTER QLOCAL(DEAD) MAXDEPTH(1)").ok
    small = connection.call(ask.Open("DEAD", BOTH_WAYS)).handle
    outcomes: dict[bytes, Told] = {}

    def begin(handle: int, body: bytes, **more: Any) -> None:
        told = outcomes[body] = Told()
        connection.begin(ask.Put.of(handle, body, VOLATILE, **more), told)

    with connection.together():
        begin(queue, b"1")
        begin(queue, b"2", time_to_live_ms=-1)
        begin(queue, b"3", msg_id=b"%024d" % 3)
        begin(small, b"4")
        begin(small, b"5")
        begin(queue + 1_000_000, b"6")
        # A verb that waits goes behind them.
        assert connection.get(queue).message.body == b"1"
        begin(queue, b"7", expiry_tenths=2**70)
        begin(queue, b"8")
    for told in outcomes.values():
        told.wait()
    reasons = {body: told.reasons for body, told in outcomes.items() if told.reasons}
    assert reasons == {
        b"2": [rc.MQRC_EXPIRY_ERROR],
        b"5": [rc.MQRC_Q_FULL],
        b"6": [rc.MQRC_HOBJ_ERROR],
        b"7": [rc.MQRC_EXPIRY_ERROR],
    }
    assert outcomes[b"3"].outcomes[0].msg_id == b"%024d" % 3
    with queue_manager.session() as session:
        there = [[each.body for each in session.browse(name)] for name in ("Q1", "DEAD")]
    assert there == [[b"3", b"8"], [b"4"]]


def test_a_commit_is_told_when_it_is_durable_and_the_next_unit_begins_at_once(
    connect: Connect,
    tmp_path: Path,
) -> None:
    with QueueManager("QM1", tmp_path / "QM1") as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
        connection = connect(manager, None)
        queue, told = connection.call(ask.Open("Q1", BOTH_WAYS)).handle, Told()
        put(connection, queue, b"1", descriptor=PERSISTENT, options=c.MQPMO_SYNCPOINT)
        connection.begin(ask.Commit(), told)
        put(connection, queue, b"2", descriptor=PERSISTENT, options=c.MQPMO_SYNCPOINT)
        connection.call(ask.Backout())
        assert told.wait() == [None]
        assert [m.body for m in manager.session().browse("Q1")] == [b"1"]
        connection.begin(ask.Commit(), told)
        assert told.wait(2) == [None, None]
        connection.close()


def test_cancel_and_delivery_race_and_exactly_one_of_them_wins(
    connect: Connect, queue_manager: QueueManager, connection: Connection, queue: int
) -> None:
    """Two threads, for each message: what is cancelled leaves it, what is not has it."""
    rounds = 300
    told, standing = Told(), list[UnderWay]()
    ready, go = (
        threading.Barrier(2, timeout=JOIN_SECONDS),
        threading.Barrier(2, timeout=JOIN_SECONDS),
    )
    won: list[bool] = []

    def cancel() -> None:
        for _ in range(rounds):
            ready.wait()
            under_way = standing[-1]
            go.wait()
            won.append(under_way.cancel())

    thread = threading.Thread(target=cancel)
    thread.start()
    other = connect(queue_manager, None)
    theirs = other.call(ask.Open("Q1", BOTH_WAYS)).handle
    for number in range(rounds):
        standing.append(connection.begin(ask.GetAny([queue], WAIT), told))
        ready.wait()
        go.wait()
        put(other, theirs, b"%d" % number)
    thread.join(JOIN_SECONDS)
    assert len(told.deliveries) == won.count(False)
    left = queue_manager.curdepth("Q1")
    assert left == won.count(True)
    for _ in range(left):
        got(other, theirs)
    bodies = sorted(int(body) for body in told.bodies)
    assert len(bodies) == len(set(bodies))
    other.close()
    assert queue_manager.verify().ok


@pytest.mark.parametrize("life_ms", [0, -1, 2**31 * 100])
def test_E2_a_life_in_ms_that_no_message_has_is_refused(
    connection: Connection, queue: int, life_ms: int
) -> None:
    with pytest.raises(MQError) as raised:
        put(connection, queue, b"", time_to_live_ms=life_ms)
    assert raised.value.reason == rc.MQRC_EXPIRY_ERROR
    told = Told()
    connection.begin(ask.Put.of(queue, b"", PERSISTENT, time_to_live_ms=life_ms), told)
    told.wait()
    assert told.reasons == [rc.MQRC_EXPIRY_ERROR]
    with pytest.raises(NoMessage):
        connection.get(queue)
