"""Subscriptions by the levels of their topic strings: few are looked at for a publication."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from mayfly.verbs.topic_strings import MANY_LEVELS, ONE_LEVEL

Member = TypeVar("Member")


class _Node(Generic[Member]):
    """One node of the index; ``stays`` behind ``#``, where any more levels may follow."""

    __slots__ = ("below", "members", "stays")

    def __init__(self, *, stays: bool = False) -> None:
        self.below: dict[str, _Node[Member]] = {}
        self.members: dict[bytes, Member] = {}
        self.stays = stays


class TopicIndex(Generic[Member]):
    """A tree of levels, wildcards among them, with members by their ids."""

    def __init__(self) -> None:
        """Begin empty."""
        self._root = _Node[Member]()

    def add(self, levels: Sequence[str], member_id: bytes, member: Member) -> None:
        """Enter a member under its levels."""
        node = self._root
        for level in levels:
            found = node.below.get(level)
            if found is None:
                found = node.below[level] = _Node(stays=level == MANY_LEVELS)
            node = found
        node.members[member_id] = member

    def remove(self, levels: Sequence[str], member_id: bytes) -> None:
        """Take a member out, and the levels that lead to nobody any more."""
        path = [self._root]
        for level in levels:
            path.append(path[-1].below[level])
        del path[-1].members[member_id]
        for level, above, node in zip(reversed(levels), path[-2::-1], path[:0:-1], strict=True):
            if node.below or node.members:
                break
            del above.below[level]

    def matching(self, levels: Iterable[str]) -> dict[bytes, Member]:
        """Return the members whose levels match those of a topic, by their ids."""
        reached = _with_many([self._root])
        for level in levels:
            further: dict[int, _Node[Member]] = {}
            for node in reached:
                if node.stays:
                    further[id(node)] = node
                for wanted in (level, ONE_LEVEL):
                    found = node.below.get(wanted)
                    if found is not None:
                        further[id(found)] = found
            reached = _with_many(further.values())
        return {member_id: m for node in reached for member_id, m in node.members.items()}


def _with_many(nodes: Iterable[_Node[Member]]) -> list[_Node[Member]]:
    """Add what ``#`` leads to, as it may stand for nothing."""
    found = {id(node): node for node in nodes}
    for node in list(found.values()):
        behind = node.below.get(MANY_LEVELS)
        while behind is not None:
            found[id(behind)] = behind
            behind = behind.below.get(MANY_LEVELS)
    return list(found.values())
