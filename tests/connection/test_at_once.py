"""Verbs that a server begins: what needs no disk is answered at once, all else is told once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayfly import QueueManager
from mayfly.connection import GetResult, LocalConnection
from mayfly.connection.local_puts import PutTarget
from mayfly.connection.values import NewMessage
from mayfly.engine.face.programs import StandingGet
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from tests.connection.conftest import BOTH_WAYS
from tests.connection.scene import VOLATILE, Told, put
from tests.spec.scene import refused

_LASTING = Descriptor(persistence=c.MQPER_PERSISTENT)


@pytest.fixture
def local(queue_manager: QueueManager) -> Iterator[LocalConnection]:
    """A connection in the process of ``QM1``, as a server has it; with ``Q1``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    made = LocalConnection(queue_manager.session(), queue_manager)
    yield made
    made.close(commit=False)


def prepared(
    local: LocalConnection,
    handle: int,
    options: int = c.MQGMO_NONE,
    *,
    max_length: int | None = None,
    wait_ms: int = 0,
) -> tuple[StandingGet, Told]:
    told = Told()
    standing = local.calls.prepare_fetch(
        handle,
        options,
        on_done=told,
        wait_ms=wait_ms,
        max_length=max_length,
        msg_id=b"",
        correl_id=b"",
        group_id=b"",
        sequence_number=None,
        offset=None,
        token=None,
        in_handle=False,
        with_extension=False,
    )
    return standing, told


def body_of(outcome: object) -> bytes:
    assert isinstance(outcome, GetResult)
    return outcome.message.body


@pytest.mark.parametrize("descriptor", [VOLATILE, _LASTING], ids=["volatile", "lasting"])
@pytest.mark.parametrize("options", [c.MQGMO_NONE, c.MQGMO_SYNCPOINT, c.MQGMO_BROWSE_FIRST])
def test_what_needs_no_disk_is_returned_and_not_told(
    queue_manager: QueueManager, local: LocalConnection, descriptor: Descriptor, options: int
) -> None:
    handle = local.open("Q1", BOTH_WAYS | c.MQOO_BROWSE).handle
    put(local, handle, b"1", descriptor=descriptor)
    standing, told = prepared(local, handle, options)
    outcome = standing.begin_at_once()
    if descriptor == _LASTING and options == c.MQGMO_NONE:
        # Its end on the disk has to be waited for.
        assert outcome is None
        [outcome] = told.wait()
    else:
        assert told.outcomes == []
    assert body_of(outcome) == b"1"
    assert not standing.cancel()
    local.backout()
    assert queue_manager.curdepth("Q1") == (options != c.MQGMO_NONE)
    assert queue_manager.verify().ok


def test_why_there_is_no_message_is_returned_and_a_message_that_stays_as_well(
    queue_manager: QueueManager, local: LocalConnection
) -> None:
    handle = local.open("Q1", BOTH_WAYS).handle
    standing, told = prepared(local, handle)
    nothing = standing.begin_at_once()
    assert isinstance(nothing, MQError)
    assert nothing.reason == rc.MQRC_NO_MSG_AVAILABLE
    put(local, handle, b"long", descriptor=_LASTING)
    cut, told_of_cut = prepared(local, handle, max_length=2)
    outcome = cut.begin_at_once()
    assert isinstance(outcome, GetResult)
    assert (outcome.warning, outcome.data_length) == (rc.MQRC_TRUNCATED_MSG_FAILED, 4)
    assert queue_manager.mqsc("ALTER QLOCAL(Q1) GET(DISABLED)").ok
    inhibited, told_of_it = prepared(local, handle, c.MQGMO_WAIT, wait_ms=-1)
    refusal = inhibited.begin_at_once()
    assert isinstance(refusal, MQError)
    assert refusal.reason == rc.MQRC_GET_INHIBITED
    assert [told.outcomes, told_of_cut.outcomes, told_of_it.outcomes] == [[], [], []]
    assert queue_manager.curdepth("Q1") == 1


def test_a_get_that_waits_is_told_and_returns_nothing(local: LocalConnection) -> None:
    handle = local.open("Q1", BOTH_WAYS).handle
    standing, told = prepared(local, handle, c.MQGMO_WAIT, wait_ms=-1)
    assert standing.begin_at_once() is None
    put(local, handle, b"1", descriptor=VOLATILE)
    [outcome] = told.wait()
    assert body_of(outcome) == b"1"
    other, told = prepared(local, handle, c.MQGMO_WAIT, wait_ms=-1)
    assert other.begin_at_once() is None
    assert other.cancel()
    put(local, handle, b"2", descriptor=VOLATILE)
    assert body_of(local.get(handle)) == b"2"
    assert told.outcomes == []


def test_a_put_has_something_left_only_for_the_disk(local: LocalConnection) -> None:
    handle = local.open("Q1", BOTH_WAYS).handle
    for descriptor, options, is_empty in (
        (VOLATILE, c.MQPMO_NONE, True),
        (_LASTING, c.MQPMO_SYNCPOINT, True),
        (_LASTING, c.MQPMO_NONE, False),
    ):
        result, completion = local.calls.attempt_put(
            PutTarget(handle, descriptor, options, c.MQHO_NONE), NewMessage(b"1")
        )
        assert completion.is_empty is is_empty
        told = Told()
        local.calls.end_with(completion, told, result)
        assert told.wait() == [result]
    local.commit()
    assert [local.get(handle).message.body for _ in range(3)] == [b"1"] * 3
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        local.get(handle)
