"""Requests by HTTP go on with the traces of their senders, by the header of W3C."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from opentelemetry import context, trace

from mayfly.client.telemetry.carrying import NAMES, context_of_headers


class Continuing:
    """An application of ASGI whose spans are children of those that requests name."""

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        """Take the application that answers."""
        self._application = application

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: object, send: object
    ) -> None:
        """Answer a request."""
        texts = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name.decode("latin-1") in NAMES
        }
        parent = context_of_headers(texts) if texts else None
        if parent is None:
            await self._application(scope, receive, send)
            return
        token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
        try:
            await self._application(scope, receive, send)
        finally:
            context.detach(token)
