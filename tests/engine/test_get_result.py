"""The result of a get: its text and its warning."""

from __future__ import annotations

from mayfly import QueueManager
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from tests.spec.scene import BROWSE, INPUT, local, take


def test_G5_a_result_says_what_it_brings_and_with_which_warning() -> None:
    with QueueManager("QM1", None, VirtualClock()) as qm, qm.session() as session:
        local(qm)
        msg_id = session.put("Q1", b"long", time_to_live_ms=2_000)
        handle = session.open("Q1", BROWSE | INPUT)
        cut = take(handle, c.MQGMO_ACCEPT_TRUNCATED_MSG, max_length=3)
        message = f"<Message {msg_id.hex()} on Q1, 3 bytes, remaining 2000 ms>"
        assert repr(cut) == f"<GetResult {message}, warning {rc.MQRC_TRUNCATED_MSG_ACCEPTED}>"
        assert (cut.data_length, cut.content, cut.failure, cut.stays) == (
            4,
            None,
            None,
            False,
        )
        other = cut.with_warning(rc.MQRC_INCOMPLETE_GROUP)
        assert (other.warning, other.data_length) == (rc.MQRC_INCOMPLETE_GROUP, 4)
        assert other.message is cut.message
