"""An open subscription of an asynchronous client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from mayfly.client.aio.outcomes import Outcomes
from mayfly.mqi import constants as c
from mayfly.verbs import requests as ask
from mayfly.verbs.facts import SubscriptionFacts
from mayfly.verbs.messages import Message
from mayfly.verbs.requests import Subscribed

#: Gets from the queue of a handle, waiting for so many ms.
Get: TypeAlias = Callable[[int, int], Awaitable[Message | None]]


class AsyncSubscription:
    """A subscription and the queue of its publications."""

    def __init__(self, outcomes: Outcomes, opened: Subscribed, get: Get) -> None:
        """Take a subscription that is open, and the get of its client."""
        self._outcomes, self._opened, self._get = outcomes, opened, get

    @property
    def facts(self) -> SubscriptionFacts:
        """Name, topic, queue, CorrelId and other facts, as they were when it was opened."""
        return self._opened.facts

    async def get(self, *, wait_ms: int = c.MQWI_UNLIMITED) -> Message | None:
        """Take the next publication, or None when none came within ``wait_ms`` (-1: for ever)."""
        return await self._get(self._opened.handle, wait_ms)

    async def messages(self, *, wait_ms: int = c.MQWI_UNLIMITED) -> AsyncIterator[Message]:
        """Yield publications until none has come within ``wait_ms``."""
        while (message := await self.get(wait_ms=wait_ms)) is not None:
            yield message

    async def request_retained(self) -> int:
        """Ask for what is retained (MQSUBRQ); returns how many come, or raises 2437."""
        return await self._outcomes.call(ask.RequestRetained(self._opened.number))

    async def close(self, *, remove: bool = False) -> None:
        """Close it; a durable one stays and collects, unless it is to be removed."""
        await self._outcomes.call(ask.CloseSubscription(self._opened.number, remove))
