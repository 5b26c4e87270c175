"""Helpers of the tests of hierarchies: queue managers of one process with channels both ways."""

from __future__ import annotations

from mayfly import QueueManager


def run(manager: QueueManager, script: str) -> str:
    """Run MQSC commands that must succeed; return what they print."""
    result = manager.mqsc(script)
    assert result.ok, result.text
    return result.text


def connect(one: QueueManager, other: QueueManager) -> None:
    """Define and start a channel from each to the other."""
    for here, there in ((one, other), (other, one)):
        run(
            here,
            f"DEFINE QLOCAL({there.name}) USAGE(XMITQ)\n"
            f"DEFINE CHANNEL({here.name}.TO.{there.name}) CHLTYPE(SDR) TRPTYPE(LOCAL) "
            f"XMITQ({there.name}) CONNAME({there.name})\n"
            f"DEFINE CHANNEL({there.name}.TO.{here.name}) CHLTYPE(RCVR) TRPTYPE(LOCAL)",
        )
    for here, there in ((one, other), (other, one)):
        run(here, f"START CHANNEL({here.name}.TO.{there.name})")


def subscribe(manager: QueueManager, topic: str, queue: str, name: str = "") -> None:
    """Let a queue, which is defined if need be, get what is published to a topic."""
    run(
        manager,
        f"DEFINE QLOCAL({queue}) REPLACE\n"
        f"DEFINE SUB('{name or queue}') TOPICSTR('{topic}') DEST({queue})",
    )


def proxies(manager: QueueManager) -> list[tuple[str, str]]:
    """Return (neighbour, topic string) of the proxy subscriptions of a queue manager."""
    rows = manager.mqsc("DISPLAY SUB(*) ALL WHERE(SUBTYPE EQ PROXY)").rows
    return sorted((str(row["DESTQMGR"]), str(row["TOPICSTR"])) for row in rows)


def bodies(manager: QueueManager, queue: str) -> list[bytes]:
    """Get all messages of a queue and return their bodies."""
    found = []
    with manager.session() as session:
        while (message := session.get(queue)) is not None:
            found.append(message.body)
    return found
