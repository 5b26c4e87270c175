"""Tasks of a framework as messages: the queue, the MsgId, and the delivery and expiry times."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from hashlib import blake2b
from math import ceil
from typing import Final

from mayfly.client.connection import Administration, Connection
from mayfly.lifetime.times import SECOND_MS, ms_of_moment
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQ_MSG_ID_LENGTH, MQ_Q_NAME_LENGTH
from mayfly.mqi.errors import MQError, mq_error
from mayfly.runtime.clocks import SystemClock
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


# Ids of tasks as MsgIds, and names of their queues as names of MQ queues


_UUID: Final = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_OUTSIDE_A_NAME: Final = re.compile(r"[^A-Za-z0-9._/]")
_ESCAPED: Final = re.compile(r"%([0-9A-F]{2})")
#: How a name that is too long goes on; no escape has this form.
_CUT: Final = "%%"
_DIGEST_BYTES: Final = 8


def msg_id_of(task_id: str) -> bytes:
    """Return the MsgId of a task, 24 bytes: those of a UUID or of a short text, then zeros.

    ``mayfly why QM1`` finds the task by its UUID, or by the hexadecimal digits of the bytes. A text
    of more than 24 bytes is hashed. Raises ValueError for an empty id.
    """
    if not task_id:
        raise ValueError("task_id '': a task has an id")
    text = task_id.encode()
    if _UUID.fullmatch(task_id):
        text = bytes.fromhex(task_id.replace("-", ""))
    elif len(text) > MQ_MSG_ID_LENGTH:
        text = blake2b(text, digest_size=MQ_MSG_ID_LENGTH).digest()
    return text.ljust(MQ_MSG_ID_LENGTH, b"\0")


def mq_name_of(name: str) -> str:
    """Return the name of the MQ queue for the queue ``name`` of a framework, up to 48 characters.

    A character that MQ does not allow, and ``%``, becomes ``%`` with the hexadecimal digits of its
    UTF-8 bytes: ``w1@host`` is ``w1%40host``. A longer name is cut and ends in a hash, so that
    different names stay different. Raises ValueError for an empty name.
    """
    if not name:
        raise ValueError("queue name '': a queue has a name")
    escaped = _OUTSIDE_A_NAME.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name
    )
    if len(escaped) <= MQ_Q_NAME_LENGTH:
        return escaped
    digest = blake2b(name.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{escaped[: MQ_Q_NAME_LENGTH - len(_CUT) - len(digest)]}{_CUT}{digest}"


def name_of(mq_name: str) -> str | None:
    """Return the name of which :func:`mq_name_of` made ``mq_name``; None for one that was cut."""
    if _CUT in mq_name:
        return None
    raw = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), mq_name)
    return raw.encode("latin-1").decode()


# Moments that a framework names, as times from now


def ms_from_now(moment: object, name: str) -> int:
    """Return the ms from now, by this machine's clock, until a moment; negative in the past.

    ``moment`` is a datetime or its ISO form, UTC without a time zone, or seconds since 1970.
    Frameworks make it from this machine's clock and a countdown; so the countdown is what counts,
    whatever time the queue manager has. Raises ValueError for another value, with ``name``.
    """
    now_ms = SystemClock().now_ms()
    if isinstance(moment, (int, float)):
        return ceil(moment * SECOND_MS) - now_ms
    try:
        given = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))
    except ValueError as error:
        raise ValueError(f"{name} {moment!r} is no moment: {error}") from None
    aware = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
    return ms_of_moment(aware, name) - now_ms
