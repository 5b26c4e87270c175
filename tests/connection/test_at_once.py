"""Verbs that a server begins: what needs no disk is answered at once, all else is told once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.client.connection import LocalConnection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.runtime.virtual_clock import frames_of_threads
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import GetResult, PutResult
from mayfly.verbs.requests import Get
from tests.connection.scene import BOTH_WAYS, VOLATILE, Told, put
from tests.facts import wait_until
from tests.spec.scene import refused

_LASTING = Descriptor(persistence=c.MQPER_PERSISTENT)


@pytest.fixture
def local(queue_manager: QueueManager) -> Iterator[LocalConnection]:
    """A connection in the process of ``QM1``, as a server has it; with ``Q1``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    made = LocalConnection(queue_manager.session(), queue_manager)
    yield made
    made.close(commit=False)


def begun(local: LocalConnection, told: Told, *get: Any, **options: Any) -> Any:
    """The result of a get that is there at once, else what is under way."""
    outcome = local.begin_without_waiting(Get(*get, **options), told)
    return outcome[0] if isinstance(outcome, tuple) else outcome


def test_a_request_that_no_event_loop_may_begin_is_2298(local: LocalConnection) -> None:
    told = Told()
    with refused(rc.MQRC_FUNCTION_NOT_SUPPORTED):
        local.begin_without_waiting(ask.Now(), told)
    assert told.outcomes == []


def test_a_handle_that_two_threads_close_at_once_is_closed_for_both(
    queue_manager: QueueManager, local: LocalConnection
) -> None:
    handle = local.call(ask.Open("Q1", BOTH_WAYS)).handle
    with ThreadPoolExecutor(2) as pool:
        with queue_manager.engine.engine_lock:
            closes = [pool.submit(local.call, ask.CloseObject(handle)) for _ in range(2)]
            wait_until(lambda: where_threads_are().count("_finish_close") == 2)
        assert [each.result() for each in closes] == [rc.MQRC_NONE, rc.MQRC_NONE]
    with refused(rc.MQRC_HOBJ_ERROR):
        local.call(ask.CloseObject(handle))


def where_threads_are() -> list[str]:
    """Return the name of the function that each thread is in."""
    return [each.f_code.co_name for each in frames_of_threads().values()]


def body_of(outcome: object) -> bytes:
    assert isinstance(outcome, GetResult)
    return outcome.message.body


@pytest.mark.parametrize("descriptor", [VOLATILE, _LASTING], ids=["volatile", "lasting"])
@pytest.mark.parametrize("options", [c.MQGMO_NONE, c.MQGMO_SYNCPOINT, c.MQGMO_BROWSE_FIRST])
def test_what_needs_no_disk_is_returned_and_not_told(
    queue_manager: QueueManager, local: LocalConnection, descriptor: Descriptor, options: int
) -> None:
    handle = local.call(ask.Open("Q1", BOTH_WAYS | c.MQOO_BROWSE)).handle
    put(local, handle, b"1", descriptor=descriptor)
    told = Told()
    outcome = begun(local, told, handle, options)
    if descriptor == _LASTING and options == c.MQGMO_NONE:
        # Its end on the disk has to be waited for.
        assert not outcome.cancel()
        [outcome] = told.wait()
    else:
        assert told.outcomes == []
    assert body_of(outcome) == b"1"
    local.call(ask.Backout())
    assert queue_manager.curdepth("Q1") == (options != c.MQGMO_NONE)
    assert queue_manager.verify().ok


def test_why_there_is_no_message_is_returned_and_a_message_that_stays_as_well(
    queue_manager: QueueManager, local: LocalConnection
) -> None:
    handle, told = local.call(ask.Open("Q1", BOTH_WAYS)).handle, Told()
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        begun(local, told, handle)
    put(local, handle, b"long", descriptor=_LASTING)
    outcome = begun(local, told, handle, max_length=2)
    assert (outcome.warning, outcome.data_length) == (rc.MQRC_TRUNCATED_MSG_FAILED, 4)
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)").ok
    with refused(rc.MQRC_GET_INHIBITED):
        begun(local, told, handle, c.MQGMO_WAIT, wait_ms=-1)
    assert told.outcomes == []
    assert queue_manager.curdepth("Q1") == 1


def test_a_get_that_waits_is_told_and_returns_nothing(local: LocalConnection) -> None:
    handle, told = local.call(ask.Open("Q1", BOTH_WAYS)).handle, Told()
    begun(local, told, handle, c.MQGMO_WAIT, wait_ms=-1)
    put(local, handle, b"1", descriptor=VOLATILE)
    [outcome] = told.wait()
    assert body_of(outcome) == b"1"
    other = begun(local, told, handle, c.MQGMO_WAIT, wait_ms=-1)
    assert other.cancel()
    put(local, handle, b"2", descriptor=VOLATILE)
    assert body_of(local.get(handle)) == b"2"
    assert told.outcomes == [outcome]


def test_a_put_has_something_left_only_for_the_disk(local: LocalConnection) -> None:
    handle = local.call(ask.Open("Q1", BOTH_WAYS)).handle
    for descriptor, options, is_empty in (
        (VOLATILE, c.MQPMO_NONE, True),
        (_LASTING, c.MQPMO_SYNCPOINT, True),
        (_LASTING, c.MQPMO_NONE, False),
    ):
        told = Told()
        put_one = ask.Put.of(handle, b"1", descriptor, options)
        outcome = local.begin_without_waiting(put_one, told)
        assert isinstance(outcome, tuple) is is_empty
        [result] = outcome if isinstance(outcome, tuple) else told.wait()
        assert isinstance(result, PutResult)
    local.call(ask.Commit())
    assert [local.get(handle).message.body for _ in range(3)] == [b"1"] * 3
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        local.get(handle)
