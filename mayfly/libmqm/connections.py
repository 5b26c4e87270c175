"""The connections of C programs: their handles, who may use them, and what is open on them."""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING, TypeAlias

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.pymqi import CMQC
from mayfly.verbs.requests import Opened, Subscribed

if TYPE_CHECKING:
    from mayfly.libmqm.callbacks import Callbacks

#: An object that a program has open under a handle.
OpenObject: TypeAlias = Opened | Subscribed


class ConnectionHandle:
    """A connection of a C program: its objects by handle, and the rule of its threads.

    ``share`` is MQCNO_HANDLE_SHARE_NONE: the thread that connected alone may use it; BLOCK: a
    thread waits for the verb of another; NO_BLOCK: it is told MQRC_CALL_IN_PROGRESS.
    """

    def __init__(self, connection: Connection, share: int) -> None:
        """Take a connection that the calling thread has made."""
        self.connection = connection
        self.callbacks: Callbacks | None = None
        self._share = share
        self._process, self._thread = os.getpid(), connection.runtime.thread_id()
        self._lock = connection.runtime.lock("libmqm")
        self._user = 0
        self._numbers = count(1)
        self._objects: dict[int, OpenObject] = {}

    def enter(self, *, asynchronous: bool = False) -> bool:
        """Begin a verb of the calling thread; False for a verb of a callback within another.

        ``asynchronous`` verbs may be called while callbacks run. Raises MQRC_CONNECTION_BROKEN in
        a forked child, MQRC_HCONN_ERROR in a thread that may not use the connection,
        MQRC_CALL_IN_PROGRESS, and MQRC_HCONN_ASYNC_ACTIVE while callbacks run.
        """
        if os.getpid() != self._process:
            raise mq_error(rc.MQRC_CONNECTION_BROKEN, "a forked child has no connections")
        thread = self.connection.runtime.thread_id()
        if self.callbacks is not None and self.callbacks.is_running:
            if self.callbacks.thread == thread:
                return False
            if not asynchronous:
                raise mq_error(CMQC.MQRC_HCONN_ASYNC_ACTIVE, "callbacks run on the connection")
        if asynchronous:
            return False
        if self._share == CMQC.MQCNO_HANDLE_SHARE_NONE and thread != self._thread:
            raise mq_error(rc.MQRC_HCONN_ERROR, "the connection is that of another thread")
        if not self._lock.acquire(blocking=self._share != CMQC.MQCNO_HANDLE_SHARE_NO_BLOCK):
            raise mq_error(CMQC.MQRC_CALL_IN_PROGRESS, "another thread uses the connection")
        return True

    def leave(self) -> None:
        """End the verb that :meth:`enter` has begun with True."""
        self._lock.release()

    def report(self, change: MQError) -> None:
        """Tell the event handler that the connection is being replaced, or has been (2544, 2545).

        Any thread may call it; without a handler, or while no callbacks run, nothing happens.
        """
        if self.callbacks is not None:
            self.callbacks.report(change)

    def add(self, opened: OpenObject) -> int:
        """Return the new handle of an object that the program has opened."""
        handle = next(self._numbers)
        self._objects[handle] = opened
        return handle

    def remove(self, handle: int) -> None:
        """Forget a handle; nothing for an unknown one."""
        self._objects.pop(handle, None)

    def opened(self, handle: int) -> Opened:
        """Return the object under a handle; MQRC_HOBJ_ERROR for another or a subscription."""
        found = self._objects.get(handle)
        if not isinstance(found, Opened):
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"Hobj {handle}")
        return found

    def subscribed(self, handle: int) -> Subscribed:
        """Return the subscription under a handle; MQRC_HOBJ_ERROR for another or an object."""
        found = self._objects.get(handle)
        if not isinstance(found, Subscribed):
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"Hsub {handle}")
        return found

    def object(self, handle: int) -> OpenObject:
        """Return what is open under a handle; raises MQRC_HOBJ_ERROR."""
        found = self._objects.get(handle)
        if found is None:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"Hobj {handle}")
        return found

    def subscription_named(self, name: str) -> Subscribed | None:
        """Return the open subscription of a name, None without one or for an empty name."""
        for found in self._objects.values():
            if name and isinstance(found, Subscribed) and found.facts.name == name:
                return found
        return None

    def handle_of(self, number: int) -> int:
        """Return the handle of the object that the connection knows by a number; 0 without."""
        for handle, found in self._objects.items():
            if isinstance(found, Opened) and found.handle == number:
                return handle
        return c.MQHO_NONE


_numbers = count(1)
_handles: dict[int, ConnectionHandle] = {}


def add(made: ConnectionHandle) -> int:
    """Return the new handle (MQHCONN) of a connection; no other one of this process has it."""
    number = next(_numbers)
    _handles[number] = made
    return number


def connection_of(number: int) -> ConnectionHandle:
    """Return the connection with a handle; raises MQRC_HCONN_ERROR for an unknown one."""
    found = _handles.get(number)
    if found is None:
        raise mq_error(rc.MQRC_HCONN_ERROR, f"Hconn {number}")
    return found


def remove(number: int) -> None:
    """Forget a handle."""
    _handles.pop(number, None)
