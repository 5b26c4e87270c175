"""Ids of tasks as MsgIds, and names of their queues as names of MQ queues."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

from mayfly.mqi.constants import MQ_MSG_ID_LENGTH, MQ_Q_NAME_LENGTH

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
