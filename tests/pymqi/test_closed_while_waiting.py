"""A connection or queue closed by another thread while its own get waits."""

from __future__ import annotations

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC
from tests.spec.scene import bodies, waiting

WAIT = CMQC.MQGMO_WAIT
LOCK = WAIT | CMQC.MQGMO_BROWSE_NEXT | CMQC.MQGMO_LOCK


@pytest.mark.parametrize("options", [WAIT, WAIT | CMQC.MQGMO_SYNCPOINT, LOCK])
@pytest.mark.parametrize(
    ("closed", "reason"),
    [("connection", CMQC.MQRC_HCONN_ERROR), ("queue", CMQC.MQRC_HOBJ_ERROR)],
)
def test_the_get_ends_and_takes_nothing(
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    queue: pymqi.Queue,
    options: int,
    closed: str,
    reason: int,
) -> None:
    gmo = pymqi.GMO(Options=options, WaitInterval=CMQC.MQWI_UNLIMITED)
    errors: list[pymqi.MQMIError] = []

    def get() -> None:
        with pytest.raises(pymqi.MQMIError) as caught:
            queue.get(None, pymqi.MD(), gmo)
        errors.append(caught.value)

    call = waiting(queue_manager, "Q1", get)
    (connection.disconnect if closed == "connection" else queue.close)()
    call.finish()
    assert [(error.comp, error.reason) for error in errors] == [(CMQC.MQCC_FAILED, reason)]
    with queue_manager.session() as session:
        session.put("Q1", b"later")
        assert bodies(session, "Q1") == [b"later"]
