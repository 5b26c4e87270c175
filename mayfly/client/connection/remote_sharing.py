"""Sockets of this process that several conversations share, up to SHARECNV of their channel."""

from __future__ import annotations

import os
import weakref
from typing import NamedTuple

from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote_conversation import Conversation
from mayfly.client.connection.remote_link import Link
from mayfly.runtime import Runtime


class Way(NamedTuple):
    """The key by which sockets are shared: address, user, and the endpoint without addresses.

    ``group`` None is all of the process that belong to no group.
    """

    address: Address
    endpoint: Endpoint
    user: str
    password: str
    group: object = None


class SharedLinks:
    """The links of a process that more conversations may share; any thread may use it."""

    def __init__(self, runtime: Runtime) -> None:
        """Begin with none."""
        self._lock = runtime.lock("shared links")
        self._links: dict[Way, weakref.WeakSet[Link]] = {}

    def place(self, way: Way) -> Conversation | None:
        """Begin a conversation on a link that has room; None where there is none.

        The link may turn out to be gone: its server has ended it, or its last conversation has.
        """
        with self._lock:
            for link in self._links.get(way, ()):
                if not link.is_over and len(link.members) < link.most_members:
                    return Conversation(link)
        return None

    def add(self, way: Way, link: Link) -> None:
        """Let a link be shared; those that are gone are forgotten."""
        with self._lock:
            for known, links in list(self._links.items()):
                if all(each.is_over for each in links):
                    del self._links[known]
            self._links.setdefault(way, weakref.WeakSet()).add(link)


_shared = SharedLinks(Runtime())


def shared_links() -> SharedLinks:
    """Return those of this process."""
    return _shared


def _begin_anew() -> None:
    """Begin without links in a forked child: the links and their lock are its parent's."""
    global _shared  # noqa: PLW0603 - the lock may be held by a thread that is not there
    _shared = SharedLinks(Runtime())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
