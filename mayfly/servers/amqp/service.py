"""The service that the connections of an AMQP server share, and calls that a connection defers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Final, NamedTuple, TypeAlias

from proton import Data

from mayfly.admin.security.admission import Admitted, Applicant
from mayfly.client.connection import Connection
from mayfly.servers.amqp import codec
from mayfly.servers.amqp.addresses import DeletedTopics
from mayfly.servers.amqp.codec import AmqpError, Value
from mayfly.servers.budget import Budget
from mayfly.servers.clients import Admits, ChannelInstances

_LOG = logging.getLogger("mayfly.amqp")
#: The longest wait of a settlement for a sync of a put.
_WAIT_SECONDS: Final = 0.01
#: Annotations beyond these bounds are dropped, so that no client can fill the server's memory.
MAX_MESSAGES: Final = 10_000
_MAX_BYTES: Final = 4_096
_MAX_NAMES: Final = 64
_NONE: Final[Mapping[Value, Value]] = {}

Call: TypeAlias = Callable[[], object]


class AmqpLimits(NamedTuple):
    """Limits of one AMQP server, the same for each connection."""

    max_frame_bytes: int = 64 * 1024
    idle_timeout_ms: int = 60_000
    #: The most unsettled messages of a sending client on one link.
    credit: int = 1_000
    #: The most bytes of one connection that wait for the disk; above it nothing is read.
    put_bytes: int = 16 * 1024 * 1024
    #: The most deliveries that a receiving client may hold on one link, whatever its credit.
    unsettled: int = 2_000


class DeferredCalls:
    """Function calls that one connection makes later.

    None is made once the connection has ended.
    """

    __slots__ = (
        "_after_end",
        "_at_end",
        "_is_over",
        "_is_woken",
        "_loop",
        "_pump",
        "_soon",
        "_when_sent",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, pump: Call) -> None:
        """Begin without calls; ``pump`` is called after each run of the calls of other threads."""
        self._loop, self._pump = loop, pump
        self._soon: deque[Call] = deque()
        self._at_end: list[Call] = []
        self._after_end: list[Call] = []
        self._when_sent: list[Call] = []
        self._is_woken = self._is_over = False

    def soon(self, call: Call) -> None:
        """Run ``call`` in the event loop soon; return at once.

        Any thread may call this, and several calls share one wake-up. ``call`` is dropped if the
        connection ends first.
        """
        self._soon.append(call)
        if not self._is_woken:
            # When two threads both wake it up, the second wake-up finds nothing to do.
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._run_soon)

    def at_end(self, call: Call) -> None:
        """Run ``call`` at the end of this pass of the event loop, or by :meth:`run_at_end`."""
        self._at_end.append(call)

    def after_end(self, call: Call) -> None:
        """Run ``call`` at the end of this pass of the event loop, after those of :meth:`at_end`."""
        self._after_end.append(call)

    def when_sent(self, call: Call) -> None:
        """Run ``call`` in the event loop once bytes have been sent to the client."""
        self._when_sent.append(call)

    def run_at_end(self) -> None:
        """Run the calls of :meth:`at_end` now, before a link, session or connection ends."""
        calls, self._at_end = self._at_end, []
        for call in calls:
            call()

    def end_pass(self) -> None:
        """End a pass of the event loop: run the calls of :meth:`at_end`, then :meth:`after_end`."""
        self.run_at_end()
        calls, self._after_end = self._after_end, []
        for call in calls:
            call()

    @property
    def has_more(self) -> bool:
        """Whether calls for the end of the pass wait."""
        return bool(self._at_end or self._after_end)

    def run_when_sent(self) -> None:
        """Schedule the calls of :meth:`when_sent`, since bytes have been sent."""
        calls, self._when_sent = self._when_sent, []
        for call in calls:
            self.soon(call)

    def end(self) -> None:
        """Run no more calls, since the links and deliveries of the connection are freed."""
        self._is_over = True

    def _run_soon(self) -> None:
        """Run all calls of :meth:`soon`, then ``pump``; after :meth:`end` the calls are dropped."""
        # Reset first, so that a call added from now on wakes it up again.
        self._is_woken = False
        while self._soon:
            call = self._soon.popleft()
            if not self._is_over:
                call()
        self._pump()


class DeferredSettlements:
    """Settlements of all connections that no client waits for; only the event loop uses the object.

    They share the sync of the next put. A client that settles a message itself expects no answer,
    and the message of another client should not wait for a sync of that settlement.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin without settlements; ``loop`` is the event loop of the server."""
        self._loop = loop
        self.calls: list[Call] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: Call) -> None:
        """Note ``call``, which settles messages; it runs just before the next sync of the store.

        It runs after 10 ms at the latest.
        """
        self.calls.append(call)
        if self._timer is None:
            self._timer = self._loop.call_later(_WAIT_SECONDS, self.make)

    def make(self) -> None:
        """Run all calls now, before a disk sync that they can share; an error is logged."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        calls, self.calls = self.calls, []
        for call in calls:
            try:
                call()
            except Exception:  # noqa: BLE001 - one client's settlement is not the others'
                _LOG.exception("a settlement cannot be made")


class AddedAnnotations:
    """Annotations that clients have added to messages with the outcome *modified*.

    The stored message does not change; so the server keeps the annotations, until it ends, by queue
    manager and MsgId. Of more than 10,000 messages the oldest are forgotten.
    """

    def __init__(self) -> None:
        """Begin without annotations."""
        self._added: dict[tuple[str, bytes], dict[Value, Value]] = {}

    def add(self, manager: str, msg_id: bytes, annotations: Mapping[Any, Any]) -> None:
        """Keep annotations that a client has added to a message, beside those added before.

        The new ones are dropped if they have more than 4 KiB, or together with the earlier ones
        more than 64 names. The earlier ones stay then.
        """
        data = Data()
        data.put_object(dict(annotations))
        raw = data.encode()
        if not annotations or len(raw) > _MAX_BYTES:
            return
        added = codec.decoded_value(raw)
        assert isinstance(added, dict)
        key = manager, msg_id
        combined = self._added.get(key, {}) | added
        if len(combined) > _MAX_NAMES:
            return
        self._added.pop(key, None)
        if len(self._added) >= MAX_MESSAGES:
            del self._added[next(iter(self._added))]
        self._added[key] = combined

    def of(self, manager: str, msg_id: bytes) -> Mapping[Value, Value]:
        """Return the annotations added to a message, empty without any."""
        return self._added.get((manager, msg_id), _NONE) if self._added else _NONE


class AmqpService(NamedTuple):
    """The parts that all connections of an AMQP server share: admission, queue managers, limits."""

    loop: asyncio.AbstractEventLoop
    executor: Executor
    admission: Admits
    #: Opens a conversation of a user: queue manager, terms, applicant.
    connect: Callable[[str, Admitted, Applicant], Connection]
    queue_managers: Sequence[str]
    limits: AmqpLimits
    #: The limit of bytes of messages in memory, of all connections of all listeners together.
    budget: Budget
    #: The channel whose rules apply to users of AMQP.
    channel: str
    instances: ChannelInstances
    #: Settlements that wait for the next sync.
    deferred_settlements: DeferredSettlements
    #: Annotations of messages that clients have returned.
    annotations: AddedAnnotations
    #: Temporary topics that were deleted.
    nodes: DeletedTopics
    #: Returns where clients of a queue manager are to go that is not open here; None for an open
    #: one.
    redirect: Callable[[str], AmqpError | None] = lambda _manager: None

    def manager_named(self, hostname: str) -> str:
        """Return the queue manager whose name equals a host name, in any case.

        Returns the first queue manager of the server if none has this name.
        """
        wanted = hostname.upper()
        return next((n for n in self.queue_managers if n.upper() == wanted), self.queue_managers[0])
