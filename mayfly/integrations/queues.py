"""Queues of frameworks, which are defined where they are missing."""

from __future__ import annotations

from typing import Final

from mayfly.client.connection import Administration, Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs import requests as ask

#: The default of 5,000 is soon reached by tasks that wait for tomorrow.
_MAX_DEPTH: Final = 999_999_999


def define_queue(connection: Connection, queue: str, *, is_durable: bool = True) -> None:
    """Define a local queue under its MQ name if it is missing, as deep as MQ allows.

    Messages of a durable one are persistent by default. Raises MQRC_UNKNOWN_OBJECT_NAME, with the
    MQSC that an operator can run, where the user may not define it or MQSC refuses it.
    """
    if _is_there(connection, queue):
        return
    persistence = "YES" if is_durable else "NO"
    script = f"DEFINE QLOCAL('{queue}') DEFPSIST({persistence}) MAXDEPTH({_MAX_DEPTH}) NOREPLACE"
    try:
        done = Administration(connection.call).mqsc(script)
        text = "" if done.ok else done.text
    except MQError as error:
        text = str(error)
    # Two programs may define it at the same time: only its absence is an error.
    if text and not _is_there(connection, queue):
        raise mq_error(
            rc.MQRC_UNKNOWN_OBJECT_NAME,
            f"queue {queue!r} is missing, and this user cannot define it ({script}): {text}",
        )


def _is_there(connection: Connection, queue: str) -> bool:
    """Return True if a queue is there, whether or not the user may open it."""
    try:
        handle = connection.call(ask.Open(queue, c.MQOO_INQUIRE)).handle
    except MQError as error:
        return error.reason != rc.MQRC_UNKNOWN_OBJECT_NAME
    connection.call(ask.CloseObject(handle))
    return True
