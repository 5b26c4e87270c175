"""The shared parts of an AMQP server, and the calls that one of its connections makes later."""

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
from mayfly.servers.amqp.addresses import Nodes
from mayfly.servers.amqp.codec import Value
from mayfly.servers.budget import Budget
from mayfly.servers.clients import Admits, Instances

_LOG = logging.getLogger("mayfly.amqp")
#: The longest wait of a settlement for a sync that others need anyhow.
_WAIT_SECONDS: Final = 0.01
#: Annotations beyond these bounds are forgotten: a client may not fill the server's memory.
MAX_MESSAGES: Final = 10_000
_MAX_BYTES: Final = 4_096
_MAX_NAMES: Final = 64
_NONE: Final[Mapping[Value, Value]] = {}

Call: TypeAlias = Callable[[], object]


class AmqpLimits(NamedTuple):
    """Bounds of one server."""

    max_frame_bytes: int = 64 * 1024
    idle_timeout_ms: int = 60_000
    #: Messages that a sending client may have under way on one link: while some are on their way
    #: to the disk, others come.
    credit: int = 1_000
    #: Bodies of one connection that may be on their way to the disk; nothing is read from it then.
    put_bytes: int = 16 * 1024 * 1024
    #: Deliveries that a receiving client may hold on one link, whatever credit it gives.
    unsettled: int = 2_000


class LaterCalls:
    """Calls to be made later for one connection; none is made once the connection has ended."""

    __slots__ = (
        "_at_end",
        "_behind",
        "_is_over",
        "_is_woken",
        "_loop",
        "_pump",
        "_soon",
        "_when_sent",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, pump: Call) -> None:
        """Take the loop; ``pump`` ends the pass in which calls of other threads are made."""
        self._loop, self._pump = loop, pump
        self._soon: deque[Call] = deque()
        self._at_end: list[Call] = []
        self._behind: list[Call] = []
        self._when_sent: list[Call] = []
        self._is_woken = self._is_over = False

    def soon(self, call: Call) -> None:
        """Make a call in the loop, from any thread; several share one wake-up."""
        self._soon.append(call)
        if not self._is_woken:
            # Two threads may both wake it up; the second finds nothing to do.
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._run_soon)

    def at_end(self, call: Call) -> None:
        """Make a call at the end of this pass of the loop, or before the client ends something."""
        self._at_end.append(call)

    def behind_end(self, call: Call) -> None:
        """Make a call behind those for the end of this pass."""
        self._behind.append(call)

    def when_sent(self, call: Call) -> None:
        """Make a call in the loop once bytes have been sent to the client."""
        self._when_sent.append(call)

    def carry_out(self) -> None:
        """Make the calls for the end of a pass now: the client ends what they belong to."""
        calls, self._at_end = self._at_end, []
        for call in calls:
            call()

    def end_pass(self) -> None:
        self.carry_out()
        calls, self._behind = self._behind, []
        for call in calls:
            call()

    @property
    def has_more(self) -> bool:
        """Whether the pass has an end again."""
        return bool(self._at_end or self._behind)

    def note_sent(self) -> None:
        calls, self._when_sent = self._when_sent, []
        for call in calls:
            self.soon(call)

    def end(self) -> None:
        """Make no call any more: the links and deliveries of the connection are gone."""
        self._is_over = True

    def _run_soon(self) -> None:
        # First: a call that comes from now on wakes it up again.
        self._is_woken = False
        while self._soon:
            call = self._soon.popleft()
            if not self._is_over:
                call()
        self._pump()


class Unhurried:
    """Settlements of all connections whose end nobody waits for; in the loop of the server alone.

    They go to the disk with the next message that is put. A client that settles a message itself
    asks for no answer. Its settlement would take the disk for itself while the message of another
    client waits.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.calls: list[Call] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: Call) -> None:
        """Make a call with the next sync, or when a short time is over."""
        self.calls.append(call)
        if self._timer is None:
            self._timer = self._loop.call_later(_WAIT_SECONDS, self.make)

    def make(self) -> None:
        """Make all calls now: a sync follows that they can share."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        calls, self.calls = self.calls, []
        for call in calls:
            try:
                call()
            except Exception:  # noqa: BLE001 - one client's settlement is not the others'
                _LOG.exception("a settlement cannot be made")


class Amended:
    """Annotations that clients have added to messages which they gave back: outcome *modified*.

    A message that is given back stays as it is stored, so the server keeps them, until it ends.
    They are kept by queue manager and MsgId; those added longest ago go first.
    """

    def __init__(self) -> None:
        self._added: dict[tuple[str, bytes], dict[Value, Value]] = {}

    def add(self, manager: str, msg_id: bytes, annotations: Mapping[Any, Any]) -> None:
        """Combine annotations with those that the message has had added before."""
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
        return self._added.get((manager, msg_id), _NONE) if self._added else _NONE


class AmqpService(NamedTuple):
    """Admission, queue managers and limits of a server, for each of its connections."""

    loop: asyncio.AbstractEventLoop
    executor: Executor
    admission: Admits
    #: Opens a conversation of a user: queue manager, terms, applicant.
    connect: Callable[[str, Admitted, Applicant], Connection]
    queue_managers: Sequence[str]
    limits: AmqpLimits
    #: Bytes of messages that are in memory, of all connections of all doors together.
    budget: Budget
    #: The channel whose rules apply to users of AMQP.
    channel: str
    instances: Instances
    #: Settlements that can wait for a sync.
    unhurried: Unhurried
    #: Annotations of messages that were given back.
    amended: Amended
    #: Temporary topics that are gone.
    nodes: Nodes

    def manager_named(self, hostname: str) -> str:
        """Return the queue manager that a host name means: the one of that name, else the first."""
        wanted = hostname.upper()
        return next((n for n in self.queue_managers if n.upper() == wanted), self.queue_managers[0])
