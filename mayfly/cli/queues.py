"""A queue that a command has open: it must be there, and is browsed message by message."""

from __future__ import annotations

from collections.abc import Iterator

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NoMessage, mq_error
from mayfly.verbs.checks import stored_id
from mayfly.verbs.messages import Message


def opened_queue(connection: Connection, name: str, options: int) -> int:
    """Open a queue and return its handle; the name of a model makes no queue for a command.

    Raises as MQOPEN; MQRC_UNKNOWN_OBJECT_NAME for a model, whose queue would end with the command.
    """
    try:
        return connection.open(name, options, dynamic_name="").handle
    except MQError as error:
        if error.reason != rc.MQRC_DYNAMIC_Q_NAME_ERROR:
            raise
        said = f"{name!r} is the name of a model queue"
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, said) from None


def whole_id(typed: bytes | None) -> bytes:
    """Return an id as verbs take it: 24 bytes, none for no id."""
    return b"" if typed is None else stored_id(typed, "id")


def browsed(
    connection: Connection,
    name: str,
    *,
    msg_id: bytes | None = None,
    correl_id: bytes | None = None,
) -> Iterator[Message]:
    """Yield the messages of a queue in get order, each read when it is asked for."""
    handle = opened_queue(connection, name, c.MQOO_BROWSE)
    while True:
        try:
            result = connection.get(
                handle,
                c.MQGMO_BROWSE_NEXT | c.MQGMO_PROPERTIES_FORCE_MQRFH2,
                msg_id=whole_id(msg_id),
                correl_id=whole_id(correl_id),
            )
        except NoMessage:
            return
        yield result.message
