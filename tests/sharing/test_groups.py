"""Groups and messages in segments on shared queues: put at one member, got at another."""

from __future__ import annotations

import pytest

from mayfly.engine import Handle, PutRequest
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.verbs.messages import GetResult
from tests.sharing.scene import PRIVATE, Sharing
from tests.spec.scene import (
    INPUT,
    OUTPUT,
    REPLIES,
    V2,
    alter_manager,
    local,
    refused,
    take,
    waiting,
)

SHORT = "SHORT.Q"
LONG = bytes(range(200))
#: In how many segments MAXMSGL(50) has it.
SEGMENT_COUNT = 5
CUTTING = V2._replace(msg_flags=c.MQMF_SEGMENTATION_ALLOWED)
WHOLE = c.MQGMO_COMPLETE_MSG
LOGICAL_GROUP = c.MQGMO_LOGICAL_ORDER | c.MQGMO_ALL_MSGS_AVAILABLE


@pytest.fixture
def ends(on_disk: Sharing) -> tuple[Handle, Handle]:
    """A shared queue of short messages: open for output at QM1, and for input at QM2."""
    on_disk.shared(SHORT, MAXMSGL=50)
    one, two = on_disk.qm1.session(), on_disk.qm2.session()
    return one.open(SHORT, OUTPUT), two.open(SHORT, INPUT)


def in_group(handle: Handle, body: bytes, flags: int, options: int = 0) -> None:
    """Put a member of a group in logical order."""
    request = PutRequest(V2._replace(msg_flags=flags))
    handle.put(body, request, options | c.MQPMO_LOGICAL_ORDER)


@pytest.mark.parametrize("persistence", [0, 1])
def test_a_message_is_cut_at_one_member_and_got_whole_at_another(
    on_disk: Sharing, ends: tuple[Handle, Handle], persistence: int
) -> None:
    sending, getting = ends
    sending.put(LONG, PutRequest(CUTTING._replace(persistence=persistence), life_ms=60_000))
    assert on_disk.qm2.curdepth(SHORT) == SEGMENT_COUNT
    on_disk.clock.advance(1_000)
    message = take(getting, WHOLE).message
    assert (message.body, message.remaining_ms) == (LONG, 59_000)
    assert on_disk.qm1.curdepth(SHORT) == 0


def test_2024_all_segments_for_a_shared_queue_or_none(
    on_disk: Sharing, ends: tuple[Handle, Handle]
) -> None:
    sending, _getting = ends
    alter_manager(on_disk.qm1, MAXUMSGS=SEGMENT_COUNT)
    sending.put(b"x", PutRequest(V2), c.MQPMO_SYNCPOINT)
    with refused(rc.MQRC_SYNCPOINT_LIMIT_REACHED):
        sending.put(LONG, PutRequest(CUTTING), c.MQPMO_SYNCPOINT)
    assert on_disk.qm1.curdepth(SHORT) == 1


def test_G8_backout_gives_all_segments_back_to_all_members(
    on_disk: Sharing, ends: tuple[Handle, Handle]
) -> None:
    sending, _getting = ends
    sending.put(LONG, PutRequest(CUTTING._replace(persistence=1)))
    with on_disk.qm2.session() as two:
        handle = two.open(SHORT, INPUT)
        assert take(handle, WHOLE | c.MQGMO_SYNCPOINT).message.body == LONG
        assert on_disk.qm1.curdepth(SHORT) == 0
        two.backout()
        found = take(handle, WHOLE | c.MQGMO_SYNCPOINT).message
        assert (found.body, found.backout_count) == (LONG, 1)
        two.commit()
    assert on_disk.qm1.curdepth(SHORT) == 0


def test_a_get_at_one_member_waits_until_the_group_is_whole(
    on_disk: Sharing, ends: tuple[Handle, Handle]
) -> None:
    sending, getting = ends
    found: list[GetResult] = []

    def get() -> None:
        found.append(take(getting, LOGICAL_GROUP | c.MQGMO_WAIT, wait_ms=60_000))

    running = waiting(on_disk.group, SHORT, get)
    in_group(sending, b"first", c.MQMF_MSG_IN_GROUP)
    assert on_disk.group.engine.waits.is_waited_on(sending.queue.number)
    in_group(sending, b"last", c.MQMF_LAST_MSG_IN_GROUP)
    running.finish()
    assert [r.message.body for r in found] == [b"first"]
    assert take(getting, LOGICAL_GROUP).message.body == b"last"


def test_P9_a_unit_of_work_sees_its_own_group_on_a_shared_queue(on_disk: Sharing) -> None:
    on_disk.shared(SHORT)
    with on_disk.qm1.session() as one, on_disk.qm2.session() as two:
        handle, other = one.open(SHORT, INPUT | OUTPUT), two.open(SHORT, INPUT)
        one.put(PRIVATE, b"beside", persistent=True)
        for body, flags in ((b"a", c.MQMF_MSG_IN_GROUP), (b"b", c.MQMF_LAST_MSG_IN_GROUP)):
            in_group(handle, body, flags, c.MQPMO_SYNCPOINT)
        with refused(rc.MQRC_NO_MSG_AVAILABLE):
            take(other, LOGICAL_GROUP)
        bodies = [take(handle, LOGICAL_GROUP | c.MQGMO_SYNCPOINT).message.body for _ in range(2)]
        assert bodies == [b"a", b"b"]
        one.commit()
        assert on_disk.qm2.curdepth(SHORT) == 0


def test_E11_one_expired_member_keeps_a_shared_group_from_all_members(
    on_disk: Sharing, ends: tuple[Handle, Handle]
) -> None:
    """Its expiration report goes to the queue manager it was put through, when it is discarded."""
    sending, getting = ends
    local(on_disk.qm1, REPLIES)
    in_group(sending, b"first", c.MQMF_MSG_IN_GROUP)
    flags, report = c.MQMF_LAST_MSG_IN_GROUP, c.MQRO_EXPIRATION
    last = V2._replace(msg_flags=flags, report=report, reply_to_q=REPLIES)
    sending.put(b"last", PutRequest(last, life_ms=1_000), c.MQPMO_LOGICAL_ORDER)
    on_disk.clock.advance(1_000)
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(getting, LOGICAL_GROUP)
    assert on_disk.qm1.curdepth(SHORT) == 2
    assert on_disk.qm1.curdepth(REPLIES) == 0
    assert take(getting).message.body == b"first"
    with refused(rc.MQRC_NO_MSG_AVAILABLE):
        take(getting)
    assert on_disk.qm1.curdepth(SHORT) == 0
    assert on_disk.qm1.curdepth(REPLIES) == 1
