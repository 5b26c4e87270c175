"""Helpers of the tests of the IMS bridge: requests, transactions, and the content of replies."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.ims_bridge import ImsBridge, Request
from mayfly.mqi import constants as c
from mayfly.mqi import structures
from mayfly.mqi.descriptor import Descriptor
from mayfly.pymqi import IIH
from mayfly.verbs.messages import Message
from tests.spec.scene import put_md

IMS, REPLIES, DEAD, BACKOUT = "IMS.BRIDGE", "REPLIES", "DEAD", "BACKOUT"
DEFINITIONS = f"""
DEFINE QLOCAL({DEAD})
ALTER QMGR DEADQ({DEAD})
DEFINE QLOCAL({IMS})
DEFINE QLOCAL({REPLIES})
DEFINE QLOCAL({BACKOUT})
"""
HEADER_BYTES = 84
PASS_EXPIRATION = c.MQIIH_PASS_EXPIRATION
#: A thread that has done nothing after this never will.
PATIENCE_SECONDS = 60.0


def asking(**fields: Any) -> Descriptor:
    """Return the descriptor of a request with an MQIIH; fields of Descriptor come on top."""
    usual = Descriptor(msg_type=c.MQMT_REQUEST, format="MQIMS", reply_to_q=REPLIES)
    return usual._replace(**fields)


def ask(
    session: Session,
    flags: int = 0,
    data: bytes = b"question",
    *,
    life_ms: int | None = None,
    **fields: Any,
) -> bytes:
    """Put a request with an MQIIH and return its MsgId; ``fields`` are those of the descriptor."""
    body = IIH(Flags=flags).pack() + data
    return put_md(session, IMS, body, asking(**fields), life_ms=life_ms).msg_id


def answering(
    manager: QueueManager, then: Callable[[], object] = lambda: None, answer: bytes = b"answer"
) -> ImsBridge:
    """Return a bridge whose transaction does something and answers."""

    def transaction(_request: Request, _iih: IIH | None) -> bytes:
        then()
        return answer

    return ImsBridge(manager, queue=IMS, transaction=transaction)


def failing(manager: QueueManager, error: BaseException) -> ImsBridge:
    """Return a bridge whose transaction raises an error."""

    def fail() -> None:
        raise error

    return answering(manager, fail)


def got(session: Session, queue: str = REPLIES) -> Message:
    """Get the message that must be there."""
    message = session.get(queue)
    assert message is not None, f"{queue} is empty"
    return message


def dead_header(message: Message) -> tuple[int, str]:
    """Return Reason and DestQName of a dead letter."""
    assert message.descriptor.format == "MQDEAD"
    header = structures.DLH.unpack(message.body)
    return int(header["Reason"]), str(header["DestQName"])


class HeldBridges(logging.Handler):
    """Hears of every time that a bridge is held."""

    def __init__(self) -> None:
        """Begin with none heard of."""
        super().__init__()
        self._semaphore = threading.Semaphore(0)

    def emit(self, record: logging.LogRecord) -> None:
        """Hear."""
        if "is held" in record.getMessage():
            self._semaphore.release()

    def wait(self) -> None:
        """Wait for the next time."""
        assert self._semaphore.acquire(timeout=PATIENCE_SECONDS)


class Calls:
    """Counts calls; the first of them fail."""

    def __init__(self, fail_count: int = 0) -> None:
        """Let so many fail."""
        self._fail_count = fail_count
        self.count = 0

    def __call__(self) -> None:
        """Count one."""
        self.count += 1
        if self.count <= self._fail_count:
            raise OSError("no disk")
