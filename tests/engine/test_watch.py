"""A wait on several open queues at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from mayfly import MQError, QueueManager
from mayfly.engine import GetRequest, Handle, Message, Session, wait_for
from mayfly.engine.waiting import Waiter
from mayfly.engine.watch import Source
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.testing import VirtualClock
from tests.spec.scene import JOIN_SECONDS


def source_of(session: Session, handle: Handle) -> Source:
    """Return an open queue as something to wait on."""
    request = GetRequest(wait_ms=c.MQWI_UNLIMITED)
    return Source(handle.getter(request, c.MQGMO_WAIT, session.unit_of_work))


class Watching:
    """A thread that waits for the first message of some queues."""

    def __init__(self, manager: QueueManager, session: Session, *names: str) -> None:
        """Begin to wait, and return when it does."""
        handles = [session.open(name, c.MQOO_INPUT_SHARED) for name in names]
        self._sources: list[Source] = [source_of(session, handle) for handle in handles]
        self._numbers = [handle.queue.number for handle in handles]
        self._manager = manager
        self.take_count = 0
        self._found: list[Message] = []
        self._errors: list[MQError] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        while not all(manager.engine.waits.is_waited_on(number) for number in self._numbers):
            assert self._thread.is_alive(), self._errors

    def result(self) -> Message:
        """Return what was found; raise what the wait has raised."""
        self._thread.join(JOIN_SECONDS)
        assert not self._thread.is_alive()
        assert not any(self._manager.engine.waits.is_waited_on(number) for number in self._numbers)
        if self._errors:
            raise self._errors[0]
        return self._found[0]

    def _run(self) -> None:
        try:
            self._found.append(wait_for(self._manager.engine, self._take, self._numbers))
        except MQError as error:
            self._errors.append(error)

    def _take(self) -> Message | None:
        for source in self._sources:
            message = source.take(in_parts=False)
            if message is not None:
                self.take_count += 1
                return message
        return None


@pytest.fixture
def manager(queue_manager: QueueManager) -> QueueManager:
    """A queue manager with two queues."""
    assert queue_manager.mqsc("DEFINE QLOCAL(A)\nDEFINE QLOCAL(B)").ok
    return queue_manager


@pytest.fixture
def session(manager: QueueManager) -> Iterator[Session]:
    """Who watches; what it has is backed out."""
    opened = manager.session(transacted=True)
    yield opened
    opened.close(commit=False)


def test_the_first_of_two_that_come_together_is_taken_and_no_other(
    manager: QueueManager, session: Session
) -> None:
    watching = Watching(manager, session, "A", "B")
    with manager.session(transacted=True) as putter:
        putter.put("B", b"b")
        putter.put("A", b"a")
    assert watching.result().body == b"a"
    assert watching.take_count == 1
    assert (manager.counts("A").locked, manager.counts("B").locked) == (1, 0)
    assert manager.counts("B").live == 1


def test_what_was_taken_is_not_lost_when_one_of_the_queues_goes(manager: QueueManager) -> None:
    found = [b"1", b"2"]
    waiter = Waiter(lambda: found.pop(0), None, None)
    assert waiter.attempt()
    assert waiter.attempt()
    waiter.fail(mq_error(rc.MQRC_Q_DELETED))
    assert (waiter.wait(manager.engine), found) == (b"1", [b"2"])


def test_it_is_taken_in_the_unit_of_work_at_the_moment_it_comes(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    watching = Watching(manager, session, "A", "B")
    with manager.session() as putter:
        putter.put("B", b"b", time_to_live_ms=1)
    clock.advance(10_000)
    assert watching.result().body == b"b"
    session.backout()
    assert session.get("B") is None


def test_what_has_expired_is_discarded_and_not_taken(
    manager: QueueManager, session: Session, clock: VirtualClock
) -> None:
    with manager.session() as putter:
        putter.put("A", b"old", time_to_live_ms=1_000)
        clock.advance(1_000)
        assert manager.curdepth("A") == 1
        watching = Watching(manager, session, "A", "B")
        assert manager.curdepth("A") == 0
        putter.put("B", b"new")
    assert watching.result().body == b"new"


def test_a_deleted_queue_ends_the_wait(manager: QueueManager, session: Session) -> None:
    dynamic = session.open("SYSTEM.DEFAULT.MODEL.QUEUE", c.MQOO_INPUT_SHARED)
    watching = Watching(manager, session, "A", dynamic.queue_name)
    dynamic.close()
    with pytest.raises(MQError) as caught:
        watching.result()
    assert caught.value.reason == rc.MQRC_Q_DELETED


def test_the_end_of_the_queue_manager_ends_the_wait(clock: VirtualClock) -> None:
    manager = QueueManager("QM2", clock=clock)
    manager.mqsc("DEFINE QLOCAL(A)")
    watching = Watching(manager, manager.session(), "A")
    manager.close()
    with pytest.raises(MQError) as caught:
        watching.result()
    assert caught.value.reason in (rc.MQRC_Q_MGR_STOPPING, rc.MQRC_CONNECTION_BROKEN)


def test_a_source_of_a_closed_handle_gives_nothing(manager: QueueManager, session: Session) -> None:
    handle = session.open("A", c.MQOO_INPUT_SHARED)
    source = source_of(session, handle)
    handle.close()
    with pytest.raises(MQError) as caught:
        source.take(in_parts=True)
    assert caught.value.reason == rc.MQRC_HOBJ_ERROR
    with pytest.raises(MQError) as again:
        source_of(session, handle)
    assert again.value.reason == rc.MQRC_HOBJ_ERROR
