"""Addresses: the queue or topic that a link, a reply or a ``to`` names.

``queue://``, ``topic://`` and capabilities decide; without them a name is that of a queue if there
is one, else of a topic. A name of a queue manager before the queue's is as in JMS:
``queue://QM2/REPLIES``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

QUEUE, TOPIC = "queue", "topic"
_PREFIXES: Final = (
    ("queue:///", QUEUE),
    ("queue://", QUEUE),
    ("topic:///", TOPIC),
    ("topic://", TOPIC),
    ("queue:", QUEUE),
    ("topic:", TOPIC),
    ("/queue/", QUEUE),
    ("/queues/", QUEUE),
    ("/topic/", TOPIC),
    ("/topics/", TOPIC),
)
_KINDS: Final = {
    "queue": QUEUE,
    "temporary-queue": QUEUE,
    "topic": TOPIC,
    "temporary-topic": TOPIC,
}


class Address(NamedTuple):
    """A name with its kind: QUEUE, TOPIC, or "" when the address does not name the kind.

    ``manager`` is a queue manager named before the queue.
    """

    kind: str
    name: str
    manager: str = ""


def read(address: str, capabilities: tuple[str, ...] = ()) -> Address:
    """Return the name behind an address; a prefix wins over the capabilities of its terminus."""
    for prefix, kind in _PREFIXES:
        if address.startswith(prefix):
            return _named(kind, address[len(prefix) :], prefix)
    kinds = [_KINDS[name] for name in capabilities if name in _KINDS]
    return Address(kinds[0] if kinds else "", address)


def topic_address(name: str) -> str:
    """Return the address of a topic."""
    return f"topic://{name}"


def _named(kind: str, name: str, prefix: str) -> Address:
    if prefix == "queue://" and "/" in name:
        manager, _slash, queue = name.partition("/")
        return Address(kind, queue, manager)
    return Address(kind, name)
