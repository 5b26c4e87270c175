"""The queue managers of a server: the open ones, and where the owners of its standbys are."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.queue_manager import QueueManager
from mayfly.servers.addresses import ListenAddress, listen_address
from mayfly.store.replica.standing import standby_text

_T = TypeVar("_T")


class OwnerPlace(NamedTuple):
    """Who owns a queue manager, empty if that is not known, and where, by names of listeners."""

    name: str = ""
    addresses: Mapping[str, str] = MappingProxyType({})

    def address(self, listener: str) -> ListenAddress | None:
        """Return where the owner has this listener; None if it has none."""
        text = self.addresses.get(listener)
        return None if text is None else listen_address(text)

    def refusal(self, queue_manager: str, listener: str) -> str:
        """Return the text for a client of ``listener`` that asks for this queue manager."""
        return standby_text(queue_manager, self.name, str(self.address(listener) or ""))


class ManagerTable(Mapping[str, QueueManager]):
    """A mapping of the open queue managers of a server by name, beside those in standby.

    All servers of the process share it. Any thread may use it: each change replaces what is inside,
    so an iteration sees the state in which it began.
    """

    def __init__(
        self, managers: Iterable[QueueManager] = (), names: Iterable[str] | None = None
    ) -> None:
        """Begin with the open ``managers``.

        ``names`` are those of all, in their order, None for those of ``managers``. One that is not
        open counts as starting until it is put in, or :meth:`stand_by` is called.
        """
        self._open = {manager.name: manager for manager in managers}
        #: The names of all queue managers of the server, open or not.
        self.names: tuple[str, ...] = tuple(self._open if names is None else names)
        self._places: dict[str, OwnerPlace] = {}
        self._following = frozenset[str]()
        self._failed = frozenset[str]()
        #: Held by a change, each of which begins with the state that the one before has left.
        self._changing = Lock()

    @classmethod
    def of(cls, managers: Iterable[QueueManager] | ManagerTable) -> ManagerTable:
        """Return ``managers`` itself if it is shared already, else one of these open managers."""
        return managers if isinstance(managers, ManagerTable) else cls(managers)

    @property
    def first(self) -> str:
        """The name of the first open queue manager; of the first of all if none is open."""
        return next(iter(self._open), self.names[0])

    def __getitem__(self, name: str) -> QueueManager:
        """Return an open queue manager; raises KeyError for another one."""
        return self._open[name]

    def __iter__(self) -> Iterator[str]:
        """Return the names of the open queue managers."""
        return iter(self._open)

    def __len__(self) -> int:
        """Return the number of open queue managers."""
        return len(self._open)

    def values(self) -> ValuesView[QueueManager]:
        """Return the queue managers that are open now."""
        return self._open.values()

    def items(self) -> ItemsView[str, QueueManager]:
        """Return the names and queue managers that are open now."""
        return self._open.items()

    def put(self, manager: QueueManager) -> None:
        """Let clients have an open queue manager."""
        with self._changing:
            made = {**self._open, manager.name: manager}
            self._open = {name: made[name] for name in self.names if name in made}
            self._places = _without(self._places, manager.name)
            self._following -= {manager.name}

    def stand_by(self, name: str, owner: OwnerPlace, *, is_following: bool = False) -> None:
        """Note that a queue manager is owned by another process; clients are told so from now on.

        It is no longer open here. It could be opened at once while its folder ``is_following``: it
        has all of the replica's log.
        """
        with self._changing:
            following = self._following - {name}
            self._following = following | {name} if is_following else following
            self._places = {**self._places, name: owner}
            self._open = _without(self._open, name)

    def fail(self, name: str) -> None:
        """Note that a queue manager is not served any more, by an error."""
        with self._changing:
            self._failed |= {name}
        self.stand_by(name, OwnerPlace())

    def has_role(self, name: str) -> bool:
        """Return True for a queue manager that is open, followed, or has failed."""
        return name in self._open or name in self._places

    def owner_of(self, name: str) -> OwnerPlace | None:
        """Return who owns a queue manager that this server follows; None for any other."""
        return None if name in self._failed else self._places.get(name)

    def is_following(self, name: str) -> bool:
        """Return True for a queue manager in standby whose folder has all of the log."""
        return name in self._following

    def has_failed(self, name: str) -> bool:
        """Return True for a queue manager that is not served any more."""
        return name in self._failed

    def absence(self, name: str, listener: str) -> MQError | None:
        """Return the error for a client that asks for a queue manager which is not open here.

        It is MQRC_HOST_NOT_AVAILABLE, after which a client tries its next address. ``listener`` is
        the name of that by which the client came: the text has the owner's address of the same.
        None for one that is open, and for an unknown name.
        """
        if name in self._open or name not in self.names:
            return None
        owner = self._places.get(name, OwnerPlace())
        return mq_error(rc.MQRC_HOST_NOT_AVAILABLE, owner.refusal(name, listener))


def _without(found: Mapping[str, _T], name: str) -> dict[str, _T]:
    """Return a copy without a name."""
    return {other: each for other, each in found.items() if other != name}
