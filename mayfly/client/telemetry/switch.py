"""The switch that turns telemetry on and off for the connections of a process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from mayfly.client.connection import Connection
from mayfly.client.connection.instruments import install
from mayfly.client.telemetry.carrying import Continuing, context_of, creation_of
from mayfly.client.telemetry.connections import Observed, TracedConnection
from mayfly.client.telemetry.recording import Recorder
from mayfly.engine.api.operating import Expired, watch_expiry
from mayfly.queue_manager import QueueManager
from mayfly.verbs.messages import Message

_M = TypeVar("_M")
_A = TypeVar("_A", bound=Callable[..., Awaitable[None]])
#: In the body of a message with a context, as nearly all encodings write it.
_MARK = b"traceparent"
#: The recorder of connections that are made now.
_recorders: list[Recorder] = []


class _Instrument:
    """Wraps connections and message listeners so that they record spans and metrics."""

    def __init__(self, recorder: Recorder) -> None:
        """Take the recorder of spans and metrics."""
        self._recorder = recorder

    def connection(self, made: Connection, *, for_others: bool) -> Connection:
        """Return a connection that records the spans and metrics of its verbs.

        With ``for_others`` its programs also see the trace context in the properties of messages.
        """
        observed = Observed(self._recorder, made.name, shows_contexts=for_others)
        traced = TracedConnection(made, observed)
        return cast("Connection", traced)

    def listener(self, mq: Connection, call: Callable[[_M], object]) -> Callable[[_M], object]:
        """Return a function that calls a message listener within a processing span.

        An exception of the listener is recorded and raised. A listener of a connection that was
        made before telemetry was switched on is returned unchanged.
        """
        traced: object = mq
        if not isinstance(traced, TracedConnection):
            # It was made before telemetry was switched on.
            return call
        observed = traced.observed

        def within(message: _M) -> None:
            received, creation = observed.last or (None, None)
            with self._recorder.processing(received, creation, observed.manager):
                call(message)

        return within

    def application(self, application: _A) -> _A:
        """Return an ASGI application that continues the traces of its requests."""
        return cast("_A", Continuing(application))


def instrument(
    *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Record the operations of connections that this process makes from now on.

    This covers pymqi, JMS, ``mayfly.connect``, ``mayfly.aio``, listener ports, and the HTTP
    requests of a server in this process. A provider that is None is the process-wide one, even if
    set later. A second call replaces the first for connections made after it.
    """
    recorder = Recorder(tracer_provider, meter_provider)
    _recorders[:] = [recorder]
    install(_Instrument(recorder))


def uninstrument() -> None:
    """Do not record connections made from now on; those made before are still recorded."""
    _recorders.clear()
    install(None)


def watch(
    manager: QueueManager, *, tracer_provider: TracerProvider | None = None
) -> Callable[[], None]:
    """Record the expiry of messages that carry a trace context; return a function that stops this.

    Each expiry is a span in the trace of the sender, from the deadline until the expiry was
    detected and is durable.
    """
    recorder = Recorder(tracer_provider)

    def detected(expired: Expired) -> None:
        if _MARK in expired.message.body:
            creation, _content = context_of(expired.message)
            if creation is not None:
                recorder.expired(expired, manager.name, creation)

    return watch_expiry(manager.engine, detected)


@contextmanager
def processing(message: Message, manager: str = "") -> Iterator[None]:
    """Record a span for the work with a message within a ``with`` block.

    Nothing is recorded while telemetry is off. An exception within the block is recorded and
    raised. ``manager`` names the queue manager of the message. Message listeners need no such
    block: they have a span already.
    """
    if not _recorders:
        yield
        return
    with _recorders[0].processing(message, creation_of(message), manager):
        yield
