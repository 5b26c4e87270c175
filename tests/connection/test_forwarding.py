"""The authority by which a message that was got goes to another queue."""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from tests.conftest import Connect
from tests.spec.scene import refused

OBJECTS = """
DEFINE QLOCAL(Q1) BOTHRESH(2) BOQNAME(BACK)
DEFINE QLOCAL(BACK)
DEFINE QLOCAL(DEAD)
DEFINE QLOCAL(OTHER)
ALTER QMGR DEADQ(DEAD)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('anna') AUTHADD(CONNECT)
SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('anna') AUTHADD(GET,INQ)
"""


@pytest.fixture
def anna(connect: Connect, queue_manager: QueueManager) -> Connection:
    """A connection of a user who may get from Q1, on which is one message, and nothing else."""
    assert queue_manager.mqsc(OBJECTS).ok
    with queue_manager.session() as session:
        session.put("Q1", b"x")
    connected: Connection = connect(queue_manager, "anna")
    return connected


@pytest.mark.parametrize("queue", ["BACK", "DEAD"])
def test_C7_G10_a_message_backed_out_too_often_goes_by_the_authority_of_the_queue_manager(
    anna: Connection, queue_manager: QueueManager, queue: str
) -> None:
    source = anna.open("Q1", c.MQOO_INPUT_SHARED | c.MQOO_INQUIRE).handle
    for _ in range(2):
        # Before that, and to any other queue, by that of the user.
        message = anna.get(source, c.MQGMO_SYNCPOINT).message
        with refused(rc.MQRC_NOT_AUTHORIZED):
            anna.onward.forward(message, "BACK")
        with refused(rc.MQRC_NOT_AUTHORIZED):
            anna.onward.dead_letter(message, rc.MQRC_BACKOUT_THRESHOLD_REACHED)
        anna.backout()
    message = anna.get(source, c.MQGMO_SYNCPOINT).message
    with refused(rc.MQRC_NOT_AUTHORIZED):
        anna.onward.forward(message, "OTHER")
    if queue == "BACK":
        anna.onward.forward(message, "BACK")
    else:
        anna.onward.dead_letter(message, rc.MQRC_BACKOUT_THRESHOLD_REACHED)
    anna.commit()
    assert (queue_manager.curdepth("Q1"), queue_manager.curdepth(queue)) == (0, 1)
