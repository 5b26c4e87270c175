"""The authority by which a message that was got goes to another queue."""

from __future__ import annotations

import pytest

from mayfly import QueueManager
from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import token_of
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
    source = anna.call(ask.Open("Q1", c.MQOO_INPUT_SHARED | c.MQOO_INQUIRE)).handle
    for _ in range(2):
        # Before that, and to any other queue, by that of the user.
        message = anna.get(source, c.MQGMO_SYNCPOINT).message
        with refused(rc.MQRC_NOT_AUTHORIZED):
            anna.call(ask.Forward(message.queue, token_of(message), "BACK"))
        with refused(rc.MQRC_NOT_AUTHORIZED):
            anna.call(
                ask.DeadLetter(message.queue, token_of(message), rc.MQRC_BACKOUT_THRESHOLD_REACHED)
            )
        anna.call(ask.Backout())
    message = anna.get(source, c.MQGMO_SYNCPOINT).message
    with refused(rc.MQRC_NOT_AUTHORIZED):
        anna.call(ask.Forward(message.queue, token_of(message), "OTHER"))
    if queue == "BACK":
        anna.call(ask.Forward(message.queue, token_of(message), "BACK"))
    else:
        anna.call(
            ask.DeadLetter(message.queue, token_of(message), rc.MQRC_BACKOUT_THRESHOLD_REACHED)
        )
    anna.call(ask.Commit())
    assert (queue_manager.curdepth("Q1"), queue_manager.curdepth(queue)) == (0, 1)
