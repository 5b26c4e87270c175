"""Helpers of the tests of remote queues: definitions, and messages in transit as their bytes."""

from __future__ import annotations

from typing import Any

from mayfly import QueueManager
from mayfly.engine.remote_queues import Embedded, unwrapped
from mayfly.mqi.structures import XQH
from mayfly.verbs.messages import Message

#: Where MQMD.Expiry of the embedded descriptor stands in the data.
EXPIRY = slice(120, 124)


def network(manager: QueueManager, **attributes: str) -> None:
    """Let ORDERS lead to Q.REMOTE of QM2, by the transmission queue of that name."""
    given = " ".join(f"{name}({value})" for name, value in attributes.items())
    result = manager.mqsc(
        "DEFINE QLOCAL(QM2) USAGE(XMITQ)\n"
        f"DEFINE QREMOTE(ORDERS) RNAME(Q.REMOTE) RQMNAME(QM2) {given}"
    )
    assert result.ok, result.text


def embedded(message: Message | None) -> Embedded:
    """Return the message behind the MQXQH of one that was got."""
    assert message is not None
    assert message.descriptor.format == "MQXMIT"
    return unwrapped(message.body, message.descriptor.encoding)


def inner_expiry(message: Message | None) -> int:
    """Return the embedded Expiry by its bytes."""
    assert message is not None
    return int.from_bytes(message.body[EXPIRY], "little", signed=True)


def transit(data: bytes = b"data", **fields: Any) -> bytes:
    """Return data behind an MQXQH, as a program makes it; ``fields`` are of the embedded MQMD."""
    values = {f"MsgDesc.{name}": value for name, value in fields.items()}
    return XQH.pack({"RemoteQName": "Q.REMOTE", "RemoteQMgrName": "QM2", **values}) + data
