"""Sessions and handles end beside their own gets: closed by another thread, or dropped."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from mayfly import QueueManager
from mayfly.engine import GetRequest, Handle, PutRequest, Session
from mayfly.engine.api.administration import QMODEL
from mayfly.engine.browse import Cursor
from mayfly.engine.get import obtain
from mayfly.engine.objects import administration
from mayfly.lifetime.times import Clock
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.runtime.clocks import SystemClock
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from tests.facts import code_of
from tests.spec.scene import (
    BROWSE,
    INPUT,
    JOIN_SECONDS,
    OUTPUT,
    Running,
    bodies,
    body,
    local,
    refused,
    take,
    waiting,
)

FOR_EVER = -1
EXCLUSIVE = c.MQOO_INPUT_EXCLUSIVE
LOCKING = c.MQGMO_BROWSE_NEXT | c.MQGMO_LOCK
#: How a get may wait: natively, or through a handle with these options.
WAYS = {"native": None, "handle": 0, "syncpoint": c.MQGMO_SYNCPOINT, "browse": LOCKING}


@pytest.fixture(params=[VirtualClock, SystemClock])
def qm(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QueueManager]:
    """A queue manager with Q1, in both kinds of time, proved to balance at the end."""
    clock: Clock = request.param()
    manager = QueueManager("QM1", tmp_path / "QM1", clock)
    local(manager)
    yield manager
    found = manager.verify()
    assert found.ok, found.problems
    assert not manager.engine.hidden
    manager.close()


def get_of(session: Session, handle: Handle, way: str) -> Callable[[], object]:
    """Return a get of Q1 that waits for ever."""
    options = WAYS[way]
    if options is None:
        return lambda: session.get("Q1", wait_ms=FOR_EVER)
    return lambda: take(handle, options | c.MQGMO_WAIT, wait_ms=FOR_EVER)


def reason(call: Running) -> int:
    """Return the reason code a call has ended with, 0 when it succeeded."""
    call.finish()
    return rc.MQRC_NONE if call.error is None else call.error.reason


def message(call: Running) -> bytes | None:
    """Return the body a get of any way has returned."""
    result = call.finish()
    assert call.error is None
    found = getattr(result, "message", result)
    assert found is None or isinstance(found, Message)
    return body(found)


def temporary(qm: QueueManager, session: Session) -> Handle:
    """Open a temporary dynamic queue, TEMP."""
    administration.define(qm.engine, QMODEL, "MODEL", {"DEFTYPE": c.MQQDT_TEMPORARY_DYNAMIC})
    return session.open("MODEL", INPUT | OUTPUT, dynamic_name="TEMP")


# Closed by another thread


@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_closing_a_session_ends_its_waiting_get_with_2018(
    qm: QueueManager, way: str, commit: bool
) -> None:
    session, other = qm.session(), qm.session()
    call = waiting(qm, "Q1", get_of(session, session.open("Q1", INPUT | BROWSE), way))
    session.close(commit=commit)
    assert reason(call) == rc.MQRC_HCONN_ERROR
    other.put("Q1", b"later")
    assert bodies(other, "Q1") == [b"later"]


@pytest.mark.parametrize("way", [way for way in WAYS if way != "native"])
def test_closing_a_handle_ends_its_waiting_get_with_2019(qm: QueueManager, way: str) -> None:
    """Its session goes on, and so does a get that waits natively."""
    session = qm.session()
    native = waiting(qm, "Q1", lambda: session.get("Q1", wait_ms=FOR_EVER))
    number = qm.engine.registry.queue("Q1").number
    handle = session.open("Q1", INPUT | BROWSE)
    call = Running(get_of(session, handle, way))
    while len(qm.engine.waits.by_queue[number]) < 2:
        assert call.is_under_way
    handle.close()
    assert reason(call) == rc.MQRC_HOBJ_ERROR
    assert native.is_under_way
    session.put("Q1", b"later")
    assert message(native) == b"later"


def test_closing_the_handle_of_a_temporary_queue_ends_its_waiting_get_with_2019(
    qm: QueueManager,
) -> None:
    """Not with 2052: the queue goes because the handle goes."""
    with qm.session() as session:
        handle = temporary(qm, session)
        call = waiting(qm, "TEMP", get_of(session, handle, "handle"))
        handle.close()
        assert reason(call) == rc.MQRC_HOBJ_ERROR


def test_a_handle_that_cannot_be_closed_stays_usable(qm: QueueManager) -> None:
    with qm.session() as session, qm.session(transacted=True) as other:
        handle = temporary(qm, session)
        other.put("TEMP", b"x")
        with refused(rc.MQRC_OBJECT_IN_USE):
            handle.close()
        other.commit()
        assert take(handle).message.body == b"x"


def test_a_message_that_comes_later_goes_to_the_next_waiter(qm: QueueManager) -> None:
    session, other = qm.session(), qm.session()
    first = waiting(qm, "Q1", lambda: session.get("Q1", wait_ms=FOR_EVER))
    second = Running(lambda: other.get("Q1", wait_ms=FOR_EVER))
    number = qm.engine.registry.queue("Q1").number
    while len(qm.engine.waits.by_queue[number]) < 2:
        assert second.is_under_way
    session.close()
    assert reason(first) == rc.MQRC_HCONN_ERROR
    assert second.is_under_way
    with qm.session() as putter:
        putter.put("Q1", b"later")
    assert message(second) == b"later"


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("way", ["native", "handle"])
@pytest.mark.parametrize("closes_handle", [False, True])
def test_a_message_handed_over_in_the_moment_of_the_close_goes_back(
    qm: QueueManager, way: str, closes_handle: bool, persistent: bool
) -> None:
    """The get is decided, its thread not back yet."""
    session, other = qm.session(), qm.session()
    handle = session.open("Q1", INPUT)
    call = waiting(qm, "Q1", get_of(session, handle, way))
    with qm.engine.engine_lock:
        other.put("Q1", b"wanted", persistent=persistent)
        assert qm.engine.waits.next_end_ms() is None
        assert call.is_under_way
        (handle if closes_handle else session).close()
    if closes_handle and way == "native":
        assert message(call) == b"wanted"
        return
    assert reason(call) == (rc.MQRC_HOBJ_ERROR if closes_handle else rc.MQRC_HCONN_ERROR)
    assert qm.counts("Q1").live == 1
    assert bodies(other, "Q1") == [b"wanted"]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("end", ["commit", "backout", "handle"])
def test_a_message_taken_in_a_unit_of_work_in_that_moment_ends_with_it(
    qm: QueueManager, end: str, persistent: bool
) -> None:
    """Committed it is the getter's, or nobody would have it; backed out it is on its queue."""
    session, other = qm.session(transacted=True), qm.session()
    handle = session.open("Q1", INPUT)
    way = "syncpoint" if end == "handle" else "native"
    call = waiting(qm, "Q1", get_of(session, handle, way))
    with qm.engine.engine_lock:
        other.put("Q1", b"wanted", persistent=persistent)
        if end == "handle":
            handle.close()
        else:
            session.close(commit=end == "commit")
    if end == "backout":
        assert reason(call) == rc.MQRC_HCONN_ERROR
    else:
        assert message(call) == b"wanted"
        session.close(commit=False)
    left = [(m.body, m.backout_count) for m in other.browse("Q1")]
    assert left == ([] if end == "commit" else [(b"wanted", 1)])


@pytest.mark.parametrize("ended", ["session", "handle"])
def test_a_lock_decided_in_the_moment_of_the_close_holds_nothing(
    qm: QueueManager, ended: str
) -> None:
    session, other = qm.session(), qm.session()
    handle = session.open("Q1", BROWSE)
    call = waiting(qm, "Q1", get_of(session, handle, "browse"))
    with qm.engine.engine_lock:
        other.put("Q1", b"x")
        assert qm.counts("Q1").locked == 1
        (session if ended == "session" else handle).close()
    assert reason(call) in (rc.MQRC_HCONN_ERROR, rc.MQRC_HOBJ_ERROR)
    assert bodies(other, "Q1") == [b"x"]


@pytest.mark.interpreted
@pytest.mark.parametrize("way", WAYS)
def test_a_get_that_comes_to_the_lock_after_the_close_neither_takes_nor_waits(
    qm: QueueManager, way: str
) -> None:
    """It found the session open before it had to wait for the lock."""
    session, other = qm.session(transacted=True), qm.session()
    handle = session.open("Q1", INPUT | BROWSE)
    call = get_of(session, handle, way)
    other.put("Q1", b"x")
    with qm.engine.engine_lock:
        running = Running(call)
        while not is_at_lock(running):
            assert running.is_under_way
        session.close()
    assert reason(running) in (rc.MQRC_HCONN_ERROR, rc.MQRC_HOBJ_ERROR)
    assert bodies(other, "Q1") == [b"x"]


def is_at_lock(running: Running) -> bool:
    """Tell whether a get is past all checks of its session and handle."""
    return code_of(running.thread) in (obtain.__code__, Cursor.browse.__code__)


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("transacted", [False, True])
@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("rounds", [40, pytest.param(150, marks=pytest.mark.soak)])
def test_a_message_that_comes_with_the_close_is_got_or_on_its_queue(
    qm: QueueManager, rounds: int, commit: bool, transacted: bool, persistent: bool
) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    other = qm.session()
    try:
        for number in range(rounds):
            text = b"%d" % number
            session = qm.session(transacted=transacted)
            call = waiting(qm, "Q1", partial(session.get, "Q1", wait_ms=FOR_EVER))
            ends: list[Callable[[], object]] = [
                partial(other.put, "Q1", text, persistent=persistent),
                partial(session.close, commit=commit),
            ]
            # Either begins first in half of the rounds.
            beside = Running(ends[number % 2])
            ends[1 - number % 2]()
            beside.finish()
            got = reason(call) == rc.MQRC_NONE
            left = bodies(other, "Q1")
            if transacted and not commit:
                # A get that returns just before it is backed out has its message all the same.
                assert left == [text]
            else:
                assert left == ([] if got else [text])
    finally:
        sys.setswitchinterval(interval)


# Dropped without close

#: A clock without a thread: one may be ending what was dropped just when the next verb looks for
#: it, which does not wait for that thread then.
NO_OTHER_THREAD = pytest.mark.parametrize("qm", [VirtualClock], indirect=True)


@NO_OTHER_THREAD
def test_a_dropped_session_frees_its_exclusive_input_and_its_counts(qm: QueueManager) -> None:
    """Before the very next verb of anybody, which may be the open that needs it."""
    dropped = qm.session()
    dropped.open("Q1", EXCLUSIVE | OUTPUT)
    other = qm.session()
    with refused(rc.MQRC_OBJECT_IN_USE):
        other.open("Q1", EXCLUSIVE)
    del dropped
    gc.collect()
    other.open("Q1", EXCLUSIVE).close()
    queue = qm.engine.registry.queue("Q1")
    assert (queue.input_count, queue.output_count, queue.exclusive_holder) == (0, 0, None)


def test_a_dropped_session_releases_its_browse_lock_to_a_waiting_get(qm: QueueManager) -> None:
    getter, other = qm.session(), qm.session()
    other.put("Q1", b"x")
    dropped = qm.session()
    assert take(dropped.open("Q1", BROWSE), LOCKING).message.body == b"x"
    call = waiting(qm, "Q1", lambda: getter.get("Q1", wait_ms=FOR_EVER))
    del dropped
    gc.collect()
    other.commit()
    assert message(call) == b"x"


@NO_OTHER_THREAD
@pytest.mark.parametrize("transacted", [False, True])
def test_a_dropped_session_takes_its_temporary_queue_with_it(
    qm: QueueManager, transacted: bool
) -> None:
    other = qm.session()
    dropped = qm.session(transacted=transacted)
    temporary(qm, dropped)
    dropped.put("TEMP", b"x")
    other.open("TEMP", INPUT)
    call = waiting(qm, "TEMP", lambda: other.get("TEMP", msg_id=b"N" * 24, wait_ms=FOR_EVER))
    del dropped
    gc.collect()
    with qm.session() as third, refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        third.open("TEMP", OUTPUT)
    assert reason(call) == rc.MQRC_Q_DELETED


@NO_OTHER_THREAD
def test_a_temporary_queue_with_work_of_others_outlives_its_dropped_session(
    qm: QueueManager,
) -> None:
    with qm.session(transacted=True) as other:
        dropped = qm.session()
        temporary(qm, dropped)
        other.put("TEMP", b"x")
        del dropped
        gc.collect()
        other.commit()
        assert qm.engine.registry.queue("TEMP").is_open is False
        assert body(other.get("TEMP")) == b"x"


@NO_OTHER_THREAD
def test_a_session_is_dropped_without_the_collector(qm: QueueManager) -> None:
    """Nothing of it refers to it, so that what it holds is free as soon as nobody else does."""
    gc.disable()
    try:
        dropped = qm.session(transacted=True)
        dropped.open("Q1", EXCLUSIVE)
        dropped.put("Q1", b"x")
        del dropped
        with qm.session() as other:
            other.open("Q1", EXCLUSIVE)
    finally:
        gc.enable()


def test_a_handle_keeps_its_session(qm: QueueManager) -> None:
    handle = qm.session().open("Q1", INPUT | OUTPUT)
    gc.collect()
    handle.put(b"x", PutRequest(Descriptor()))
    assert handle.get(GetRequest()).message.body == b"x"
    handle.close()


def test_a_handle_that_is_dropped_ends_with_its_session(qm: QueueManager) -> None:
    session = qm.session()
    session.open("Q1", EXCLUSIVE)
    gc.collect()
    assert qm.engine.registry.queue("Q1").exclusive_holder is not None
    session.close()
    assert qm.engine.registry.queue("Q1").exclusive_holder is None


def test_dropping_a_session_waits_for_no_lock(qm: QueueManager) -> None:
    """The collector runs anywhere, also while its thread or another holds the lock."""
    held, done = Event(), Event()
    dropped = [qm.session(transacted=True)]
    temporary(qm, dropped[0])
    dropped[0].put("Q1", b"x")

    def hold() -> None:
        with qm.engine.definitions_lock, qm.engine.engine_lock:
            held.set()
            assert done.wait(JOIN_SECONDS)

    def drop() -> None:
        dropped.clear()
        gc.collect()

    queue_state = Running(hold)
    assert held.wait(JOIN_SECONDS)
    dropping = Running(drop)
    dropping.finish()
    done.set()
    queue_state.finish()
    with qm.session() as session:
        # In real time the clock's thread may be ending it at this moment: a later verb finds it so.
        patience = int(JOIN_SECONDS * 1_000) if isinstance(qm.engine.clock, SystemClock) else 1
        for _ in range(patience):
            assert session.get("Q1") is None
            if qm.engine.registry.by_name("TEMP") is None:
                break
            Event().wait(0.001)
    assert qm.engine.registry.by_name("TEMP") is None
