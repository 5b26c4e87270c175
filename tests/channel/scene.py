"""Two queue managers with a channel between them, and a link that can be cut at any call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mayfly import QueueManager
from mayfly.channel import (
    ChannelStatus,
    Envelope,
    LinkDown,
    Opening,
    ReceiverLink,
    ReceiverState,
    Traffic,
    connect_local,
)
from mayfly.engine.api.transit import ChannelDefinition
from mayfly.mqi.structures import XQH
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message

CHANNEL = "QM1.TO.QM2"
XMITQ = "QM2"
START_MS = 1_700_000_000_000


def done(manager: QueueManager, script: str) -> str:
    """Run commands that must all succeed; return what they print."""
    result = manager.mqsc(script)
    assert result.ok, result.text
    return result.text


def sending(
    clock: VirtualClock | None, path: Path | None = None, **attributes: Any
) -> QueueManager:
    """Open QM1 with a transmission queue and the sender, not started."""
    manager = QueueManager("QM1", path, clock)
    extra = " ".join(f"{keyword}({value})" for keyword, value in attributes.items())
    done(
        manager,
        f"DEFINE QLOCAL({XMITQ}) USAGE(XMITQ) MAXDEPTH(999999) REPLACE\n"
        "DEFINE QLOCAL(BACK) REPLACE\n"
        f"DEFINE CHANNEL({CHANNEL}) CHLTYPE(SDR) CONNAME(QM2) XMITQ({XMITQ}) {extra} REPLACE",
    )
    return manager


def receiving(
    clock: VirtualClock | None, path: Path | None = None, **attributes: Any
) -> QueueManager:
    """Open QM2 with the queue IN, a dead-letter queue, the receiver and a way back to QM1."""
    manager = QueueManager("QM2", path, clock)
    extra = " ".join(f"{keyword}({value})" for keyword, value in attributes.items())
    done(
        manager,
        "DEFINE QLOCAL(IN) MAXDEPTH(999999) REPLACE\n"
        "ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)\n"
        "DEFINE QLOCAL(QM1) USAGE(XMITQ) REPLACE\n"
        f"DEFINE CHANNEL({CHANNEL}) CHLTYPE(RCVR) {extra} REPLACE",
    )
    return manager


def standing(manager: QueueManager) -> ChannelStatus:
    """Return how the one channel of a queue manager stands."""
    [status] = manager.channels.status(CHANNEL)
    return status


def bodies(manager: QueueManager, queue: str = "IN") -> list[bytes]:
    """Return the data of the messages on a queue, in get order."""
    return [message.body for message in messages(manager, queue)]


def messages(manager: QueueManager, queue: str = "IN") -> list[Message]:
    """Return the messages on a queue."""
    with manager.session() as session:
        return list(session.browse(queue))


def put(manager: QueueManager, body: bytes, queue: str = "IN@QM2", **more: Any) -> bytes:
    """Put a persistent message for QM2, unless told otherwise; return its MsgId."""
    with manager.session(user="alice") as session:
        return session.put(queue, body, **{"persistent": True, **more})


def by_hand(body: bytes, queue: str = "IN", expiry: int = -1, **fields: Any) -> bytes:
    """Return the data of a message for a channel, made without the help of a queue manager."""
    embedded = {"Persistence": 1, "Priority": 3, "Expiry": expiry, **fields}
    header = {f"MsgDesc.{name}": value for name, value in embedded.items()}
    return XQH.pack({"RemoteQName": queue, "RemoteQMgrName": "QM2", **header}) + body


class Cut(Exception):
    """The process that runs the channel dies here, as far as a test in it can show."""


class FragileLink:
    """A real link between both; ``at`` is told of each call before and behind it, and may raise."""

    def __init__(self, link: ReceiverLink, at: Callable[[str], None]) -> None:
        self._link = link
        self._at = at

    def negotiate(self, opening: Opening) -> ReceiverState:
        self._at("before negotiate")
        standing = self._link.negotiate(opening)
        self._at("behind negotiate")
        return standing

    def send(self, envelopes: Sequence[Envelope]) -> int | None:
        self._at("before send")
        wait_ms = self._link.send(envelopes)
        self._at("behind send")
        return wait_ms

    def send_to_keep(self, envelopes: Sequence[Envelope]) -> int:
        self._at("before send_to_keep")
        had_ms = self._link.send_to_keep(envelopes)
        self._at("behind send_to_keep")
        return had_ms

    def go_on(self, transit_ms: int) -> int | None:
        self._at("before go_on")
        wait_ms = self._link.go_on(transit_ms)
        self._at("behind go_on")
        return wait_ms

    def confirm(self, luw: str, sequence: int) -> None:
        self._at("before confirm")
        self._link.confirm(luw, sequence)
        self._at("behind confirm")

    def ping(self, channel: str) -> None:
        self._at("before ping")
        self._link.ping(channel)
        self._at("behind ping")

    def traffic(self) -> Traffic:
        return self._link.traffic()

    def close(self) -> None:
        self._link.close()


def through(manager: QueueManager, at: Callable[[str], None]) -> None:
    """Let the senders of a queue manager use fragile links from now on."""

    def connect(definition: ChannelDefinition) -> ReceiverLink:
        at("before connect")
        return FragileLink(connect_local(definition), at)

    manager.channels.connect = connect


def cut_once(place: str) -> Callable[[str], None]:
    """Return what breaks the link the first time it comes to a place."""
    left = [place]

    def at(where: str) -> None:
        if where in left:
            left.remove(where)
            raise LinkDown(f"cut {where}")

    return at
