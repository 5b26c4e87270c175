"""The open objects of a client: queues and topics stay open for the next verb."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from mayfly.client.connection import Connection
from mayfly.client.connection.periodic_checks import PeriodicChecks
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.verbs import requests as ask

_T = TypeVar("_T")
#: The number of handles that stay open; the default of MAXHANDS is 256.
MAX_OPEN = 32
#: The time between checks in ms. The second check that finds a handle unused closes it: an open
#: object can be neither cleared nor deleted (MQRC_OBJECT_IN_USE).
LOOK_MS = 500
#: An object is not what it was when it was opened: it is opened again, and nothing was done.
OUTDATED = frozenset({rc.MQRC_OBJECT_CHANGED, rc.MQRC_Q_DELETED, rc.MQRC_HOBJ_ERROR})

_IDLE_CHECKS = PeriodicChecks("mayfly-client")


class ObjectToOpen(NamedTuple):
    """The name of an object and the options to open it with; equal ones share a handle."""

    name: str
    options: int
    kind: int = c.MQOT_Q
    topic: str = ""
    selector: str | None = None

    def open(self, connection: Connection) -> int:
        """Open the object (MQOPEN) and return its handle; ``QUEUE@MANAGER`` is a remote queue.

        Raises the reason codes of MQOPEN, such as MQRC_UNKNOWN_OBJECT_NAME.
        """
        name, _, manager = self.name.partition("@")
        return connection.call(
            ask.Open(
                name,
                self.options,
                kind=self.kind,
                manager=manager,
                topic=self.topic,
                selector=self.selector,
            )
        ).handle


def to_queue(queue: str) -> ObjectToOpen:
    """Return the name and options to open a queue for puts; nothing is opened yet."""
    return ObjectToOpen(queue, c.MQOO_OUTPUT)


def to_topic(topic: str, topic_object: str = "") -> ObjectToOpen:
    """Return the name and options to open a topic for publications; nothing is opened yet."""
    return ObjectToOpen(topic_object, c.MQOO_OUTPUT, c.MQOT_TOPIC, topic)


def from_queue(queue: str, selector: str | None) -> ObjectToOpen:
    """Return the name and options to open a queue for gets; nothing is opened yet."""
    return ObjectToOpen(queue, c.MQOO_INPUT_SHARED, selector=selector)


def to_browse(queue: str, selector: str | None) -> ObjectToOpen:
    """Return the name and options to open a queue for browsing; nothing is opened yet."""
    return ObjectToOpen(queue, c.MQOO_BROWSE, selector=selector)


class _Used(NamedTuple):
    """A handle, and the number of the idle check before its last use."""

    handle: int
    look: int


class OpenObjects:
    """The handles that a client keeps open, at most MAX_OPEN.

    The least recently used is closed first. One thread uses the client. A thread of the process
    closes handles that are idle.
    """

    tick_ms = LOOK_MS

    def __init__(self, connection: Connection) -> None:
        """Begin with nothing open on the connection."""
        self._connection = connection
        self._lock = connection.runtime.lock("open objects")
        self._handles: dict[ObjectToOpen, _Used] = {}
        #: The object that the verb under way uses; it is not closed meanwhile.
        self._in_use: ObjectToOpen | None = None
        self._look = 0

    def use(self, opening: ObjectToOpen, verb: Callable[[int], _T]) -> _T:
        """Call ``verb`` with the handle of an object and return its result.

        Opens the object if it is not open. If the object has changed since then, ``verb`` has done
        nothing, and is called once more with a new handle. Raises the errors of the open and of
        ``verb``.
        """
        with self._lock:
            known = self._handles.pop(opening, None)
            if known is not None:
                # In again at the end: the first is the one that was longest not used.
                self._handles[opening] = known
            self._in_use = opening
        try:
            if known is not None:
                try:
                    return verb(known.handle)
                except MQError as error:
                    if error.reason not in OUTDATED:
                        raise
                    self._forget(opening)
                    self._close(known.handle)
            return verb(self._open(opening))
        finally:
            with self._lock:
                self._in_use = None
                last = self._handles.get(opening)
                if last is not None:
                    self._handles[opening] = _Used(last.handle, self._look)

    def close(self) -> None:
        """Close all handles, so that the objects can be altered and deleted."""
        with self._lock:
            handles, self._handles = self._handles, {}
        for known in handles.values():
            self._close(known.handle)

    @property
    def is_over(self) -> bool:
        """True when no handle is open, or the connection is closed."""
        return not self._handles or not self._connection.is_open

    def tick(self) -> None:
        """Close the handles that no verb has used for two checks.

        Does nothing while the connection is made again: a close would wait for it, and the checks
        of all other clients with it.
        """
        if self._connection.socket == 0:
            return
        with self._lock:
            self._look += 1
            idle = {
                opening: known.handle
                for opening, known in self._handles.items()
                if known.look < self._look - 1 and opening != self._in_use
            }
            for opening in idle:
                del self._handles[opening]
        for handle in idle.values():
            self._close(handle)

    def _open(self, opening: ObjectToOpen) -> int:
        """Open an object and return its handle, which stays open.

        If MAX_OPEN handles are open, the least recently used one is closed.
        """
        with self._lock:
            oldest = next(iter(self._handles), None) if len(self._handles) >= MAX_OPEN else None
            given_up = None if oldest is None else self._handles.pop(oldest)
        if given_up is not None:
            self._close(given_up.handle)
        handle = opening.open(self._connection)
        with self._lock:
            is_first = not self._handles
            self._handles[opening] = _Used(handle, self._look)
        if is_first:
            _IDLE_CHECKS.add(self)
        return handle

    def _forget(self, opening: ObjectToOpen) -> None:
        """Remove the handle of an object from the open ones; it is not closed."""
        with self._lock:
            self._handles.pop(opening, None)

    def _close(self, handle: int) -> None:
        """Close a handle; an MQError is ignored, for example of a handle that is already closed."""
        # A handle that its queue manager knows no more is closed.
        with suppress(MQError):
            self._connection.call(ask.CloseObject(handle))
