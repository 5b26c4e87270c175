"""What the model, the kills and the failing disk have found, one readable test each."""

import threading

from mayfly import QueueManager
from mayfly.engine import GetRequest, Handle
from mayfly.mqi import constants as c
from mayfly.mqi.errors import NoMessage
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message

BROWSE = c.MQOO_BROWSE | c.MQOO_INPUT_SHARED


def browse(handle: Handle, options: int) -> Message:
    return handle.get(GetRequest(), options).message


def waiting_get(manager: QueueManager, got: list[bytes]) -> threading.Thread:
    """Start a thread that waits for a message of Q1; return when it waits."""

    def wait() -> None:
        message = manager.session().get("Q1", wait_ms=-1)
        got.append(b"" if message is None else message.body)

    thread = threading.Thread(target=wait)
    thread.start()
    number = manager.engine.registry.queue("Q1").number
    while not manager.engine.waits.is_waited_on(number):
        threading.Event().wait(0.001)
    return thread


def test_P9_an_own_put_got_again_is_in_no_count_but_locked(queue_manager: QueueManager) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    with queue_manager.session(transacted=True) as session:
        session.put("Q1", b"through")
        assert queue_manager.counts("Q1") == (0, 0, 1, 0, 0)
        assert session.get("Q1") is not None
        assert queue_manager.counts("Q1") == (0, 0, 0, 1, 0)
        assert queue_manager.verify().ok
        session.backout()
        assert queue_manager.counts("Q1") == (0, 0, 0, 0, 0)


def test_E16_a_reread_of_an_expired_message_discards_it_by_that_very_call(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(REPLY)")
    with queue_manager.session() as session:
        session.put(
            "Q1", b"", time_to_live_ms=100, report=c.MQRO_EXPIRATION, reply_to_q="REPLY"
        )  # fmt: skip
        handle = session.open("Q1", BROWSE)
        browse(handle, c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK)
        clock.advance(100)
        assert queue_manager.curdepth("Q1") == 1
        try:
            browse(handle, c.MQGMO_BROWSE_MSG_UNDER_CURSOR)
            raise AssertionError("an expired message was handed out")
        except NoMessage as error:
            reason = error.reason
        assert reason == 2034
        assert (queue_manager.curdepth("Q1"), queue_manager.curdepth("REPLY")) == (0, 1)


def test_B5_a_waiting_get_does_not_snatch_the_locked_message_its_holder_takes(
    queue_manager: QueueManager,
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    got: list[bytes] = []
    with queue_manager.session() as session:
        session.put("Q1", b"locked")
        handle = session.open("Q1", BROWSE)
        browse(handle, c.MQGMO_BROWSE_FIRST | c.MQGMO_LOCK)
        thread = waiting_get(queue_manager, got)
        assert browse(handle, c.MQGMO_BROWSE_MSG_UNDER_CURSOR | c.MQGMO_LOCK).body == b"locked"
        assert browse(handle, c.MQGMO_MSG_UNDER_CURSOR).body == b"locked"
        session.put("Q1", b"next")
        thread.join()
    assert got == [b"next"]


def test_B5_a_reread_can_lock(queue_manager: QueueManager) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    with queue_manager.session() as session:
        session.put("Q1", b"body")
        handle = session.open("Q1", BROWSE)
        browse(handle, c.MQGMO_BROWSE_FIRST)
        assert queue_manager.counts("Q1") == (0, 1, 0, 0, 0)
        browse(handle, c.MQGMO_BROWSE_MSG_UNDER_CURSOR | c.MQGMO_LOCK)
        assert queue_manager.counts("Q1") == (0, 0, 0, 1, 0)
        assert session.get("Q1") is None
        browse(handle, c.MQGMO_BROWSE_MSG_UNDER_CURSOR)
        assert queue_manager.counts("Q1") == (0, 1, 0, 0, 0)


def test_D3_an_interrupted_cancel_is_released_at_once_and_counts_no_backout(
    queue_manager: QueueManager, clock: VirtualClock
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q1)")
    with (
        queue_manager.session(transacted=True) as administrator,
        queue_manager.session() as session,
    ):
        msg_id = session.put("Q1", b"delayed", delay_ms=100)
        assert administrator.get("SYSTEM.DDELAY.LOCAL.QUEUE", correl_id=msg_id) is not None
        clock.advance(100)
        assert queue_manager.counts("Q1") == (1, 0, 0, 0, 0)
        administrator.backout()
        message = session.get("Q1")
        assert message is not None
        assert (message.msg_id, message.backout_count) == (msg_id, 0)
