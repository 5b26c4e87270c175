"""The open objects of an asyncio client, which its tasks share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from mayfly.client.aio.outcomes import AwaitableVerbs
from mayfly.client.open_objects import LOOK_MS, MAX_OPEN, OUTDATED, ObjectToOpen
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi.errors import MQError
from mayfly.verbs import requests as ask

_T = TypeVar("_T")


class _Shared:
    """A handle that is open or being opened, and the number of tasks that use it."""

    def __init__(self, handle: asyncio.Future[int]) -> None:
        """Begin without users; ``handle`` is the handle of the object once it is open."""
        self.handle = handle
        self.users = 0
        self.is_dropped = False
        #: The look before which it was used last.
        self.look = 0

    @property
    def is_open(self) -> bool:
        """True if the object is open: opening it has ended without an error."""
        return (
            self.handle.done() and not self.handle.cancelled() and self.handle.exception() is None
        )


class AsyncOpenObjects:
    """The handles that a client keeps open: at most MAX_OPEN, or more if tasks use all of them."""

    def __init__(self, verbs: AwaitableVerbs) -> None:
        """Begin with nothing open; ``verbs`` runs the verbs of the client."""
        self._verbs = verbs
        self._shared: dict[ObjectToOpen, _Shared] = {}
        self._look = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Future[None]] = set()

    async def use(self, opening: ObjectToOpen, verb: Callable[[int], Awaitable[_T]]) -> _T:
        """Await ``verb`` with the handle of an object and return its result.

        Opens the object if it is not open. If the object has changed since then, ``verb`` has done
        nothing, and is awaited once more with a new handle. Raises the errors of the open and of
        ``verb``.
        """
        was_open = opening in self._shared
        shared = self._find(opening)
        shared.users += 1
        try:
            # The task that opens it may be cancelled; other tasks still wait for the handle.
            return await verb(await asyncio.shield(shared.handle))
        except MQError as error:
            is_open = shared.is_open
            if not is_open or error.reason in OUTDATED:
                self._drop(opening, shared)
            if not (is_open and was_open and error.reason in OUTDATED):
                raise
        finally:
            shared.users -= 1
            shared.look = self._look
            self._watch()
            if shared.is_dropped and not shared.users:
                await self._close(shared)
        return await self.use(opening, verb)

    async def close(self) -> None:
        """Close the handles that no task uses, so that the objects can be altered and deleted."""
        idle = [opening for opening, shared in self._shared.items() if not shared.users]
        for opening in idle:
            await self._close(self._shared.pop(opening))

    def end(self) -> None:
        """Forget all handles and check them no more; the close of the connection closes them."""
        if self._timer is not None:
            self._timer.cancel()
        self._shared.clear()

    def _watch(self) -> None:
        """Schedule the next check for idle handles in half a second, unless one is scheduled."""
        if self._timer is None and self._shared:
            self._timer = asyncio.get_running_loop().call_later(LOOK_MS / SECOND_MS, self._tick)

    def _tick(self) -> None:
        """Close the handles that no task has used for two checks; then schedule the next check."""
        self._timer = None
        self._look += 1
        for opening, shared in list(self._shared.items()):
            if not shared.users and shared.look < self._look - 1:
                del self._shared[opening]
                closing = asyncio.ensure_future(self._close(shared))
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
        self._watch()

    def _find(self, opening: ObjectToOpen) -> _Shared:
        """Return the shared handle of an object; begin to open the object if it is not open."""
        shared = self._shared.pop(opening, None)
        if shared is None:
            shared = _Shared(asyncio.ensure_future(self._open(opening)))
        # In again at the end: the first is the one that was longest not used.
        self._shared[opening] = shared
        return shared

    def _drop(self, opening: ObjectToOpen, shared: _Shared) -> None:
        """Forget the handle ``shared`` of a changed object, so that a new one is opened.

        The last task that still uses the old handle closes it.
        """
        shared.is_dropped = True
        if self._shared.get(opening) is shared:
            del self._shared[opening]

    async def _open(self, opening: ObjectToOpen) -> int:
        """Open an object and return its handle; raises the MQError of the open.

        If MAX_OPEN handles are open, the least recently used idle one is closed.
        """
        if len(self._shared) >= MAX_OPEN:
            idle = next((key for key, shared in self._shared.items() if not shared.users), None)
            if idle is not None:
                await self._close(self._shared.pop(idle))
        return await self._verbs.run(partial(opening.open, self._verbs.connection))

    async def _close(self, shared: _Shared) -> None:
        """Close a handle; an MQError is ignored, for example of a handle that is already closed."""
        # A handle that its queue manager knows no more is closed.
        with suppress(MQError):
            handle = await shared.handle
            await self._verbs.close(ask.CloseObject(handle))
