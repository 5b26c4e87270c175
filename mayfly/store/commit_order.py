"""Which of the waiting commits share the next transaction: due before new.

Messages that are released, got or discarded go with the next transaction, whatever else waits. New
messages share it in the order of their commits, as far as its room reaches: a release that comes
while it runs waits for that one transaction, which is soon over. Beside a release the room is
small, as the release waits for all that its transaction writes. New messages that waited for a
release do not wait for the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

from mayfly.runtime import Signal
from mayfly.store.units import Unit

#: New messages of one transaction: some 10 ms of statements, beside which a sync counts for little.
ROOM = 500
#: New messages beside a release: less than 1 ms.
ROOM_BESIDE_RELEASE = 20


class Commit:
    """The units of one caller, which share a transaction, and the wait of that caller."""

    __slots__ = ("done", "is_next", "leads", "shared", "units", "woken")

    def __init__(self, units: tuple[Unit, ...], done: Signal) -> None:
        """Begin with nothing written."""
        self.units = units
        #: Set when the units are written, or have failed, or when the caller is to lead.
        self.done = done
        self.leads = False
        #: Whether a release went before it, so that it goes with the next transaction.
        self.is_next = False
        #: While it leads: the commits of the transaction that it runs; then those to be told.
        self.shared: list[Commit] = []
        self.woken: list[Commit] = []

    def is_over(self) -> bool:
        """Return True if it is decided and nobody waits for it to lead."""
        return self.units[-1].is_decided() and not (self.leads or self.woken)

    def is_release(self) -> bool:
        """Return True if it brings delayed messages to their queues."""
        return any(unit.moves for unit in self.units)

    def new_count(self) -> int:
        """Return how many messages it adds; units that end as many as they add count as none."""
        return sum([unit.new_count() for unit in self.units])


def divided(waiting: Sequence[Commit]) -> tuple[list[Commit], list[Commit]]:
    """Return the commits of the next transaction, and those that come later; both keep the order.

    The first new message goes with the next transaction unless a release is there.
    """
    if len(waiting) == 1:
        return [waiting[0]], []
    room = ROOM_BESIDE_RELEASE if holds_release(waiting) else ROOM
    now: list[Commit] = []
    later: list[Commit] = []
    for commit in waiting:
        count = commit.new_count()
        goes = count <= room or room == ROOM or commit.is_next
        if count and (later or not goes):
            later.append(commit)
        else:
            room -= count
            now.append(commit)
    if later:
        later[0].is_next = True
    return now, later


def holds_release(waiting: Sequence[Commit]) -> bool:
    """Return True if a release is among some commits."""
    return any(commit.is_release() for commit in waiting)
