"""In a forked child a connection is its parent's: the child's copy is unusable."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """A connection, of which a fork leaves a copy in the child."""

    def leave_to_parent(self) -> None:
        """Be unusable in a forked child, without a word to the server."""


#: All connections of this process.
_links: weakref.WeakSet[Forkable] = weakref.WeakSet()


def note_link(link: Forkable) -> None:
    """Let a connection be left to the parent in forked children."""
    _links.add(link)


def _leave_to_parent() -> None:
    for link in list(_links):
        link.leave_to_parent()
    _links.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
