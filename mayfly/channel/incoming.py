"""The links of senders in other processes, which their server calls.

A sender that dies may send no word of it. Its unconfirmed messages are backed out when its
connection is lost, when it comes again, when its channel is stopped, or here, once it has been
silent for too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mayfly.channel.local import LocalLink, Partner
from mayfly.channel.receiver import Caller
from mayfly.engine import Engine
from mayfly.lifetime.transmission import silence_ms
from mayfly.verbs.contracts.channels import Opening, Parcel, ReceiverState


class IncomingLink:
    """One link, and until when its sender must have spoken; one thread at a time calls it."""

    def __init__(self, manager: Engine, opening: Opening, link: LocalLink) -> None:
        """Take a link that has negotiated."""
        self._manager, self._link = manager, link
        self._silence_ms = silence_ms(opening.heartbeat_s)
        #: None while the sender is being answered, and where it may be silent for ever.
        self.until_ms: int | None = None
        self._hear()

    @property
    def connection_number(self) -> int:
        """The number of the receiver's connection to its queue manager, 0 once it has ended."""
        return self._link.connection_number

    def send(self, parcels: Sequence[Parcel]) -> int | None:
        """Put a batch; returns as ``Link.send``. Raises LinkDown for a link that has ended."""
        return self._answer(lambda: self._link.send(parcels))

    def hand_over(self, parcels: Sequence[Parcel], spent_ms: int) -> int:
        """Keep a batch that has come in since ``spent_ms``; as ``Link.hand_over``."""
        self.until_ms = None
        try:
            return self._link.hand_over(parcels, spent_ms)
        finally:
            self._hear()

    def go_on(self, transit_ms: int) -> int | None:
        """Put what is kept, or could not be put; as :meth:`send`."""
        return self._answer(lambda: self._link.go_on(transit_ms))

    def confirm(self, luw: str, sequence: int) -> None:
        """Commit a batch; raises as :meth:`send`."""
        self._answer(lambda: self._link.confirm(luw, sequence))

    def ping(self, channel: str) -> None:
        """Say whether the channel receives: the sender lives."""
        self._answer(lambda: self._link.ping(channel))

    def close(self) -> None:
        """End; unconfirmed messages are backed out."""
        self._link.close()

    def _answer(self, call: Callable[[], int | None]) -> int | None:
        self.until_ms = wait_ms = None
        try:
            wait_ms = call()
        finally:
            self._hear(wait_ms or 0)
        return wait_ms

    def _hear(self, wait_ms: int = 0) -> None:
        if self._silence_ms is not None:
            self.until_ms = self._manager.now_ms() + wait_ms + self._silence_ms


class IncomingLinks:
    """Those of one queue manager; any thread may call it."""

    def __init__(self, manager: Engine, partner: Partner) -> None:
        """Begin with none; ``partner`` accepts them."""
        self._manager, self._partner = manager, partner
        self._lock = manager.runtime.lock("incoming links")
        self._links: set[IncomingLink] = set()
        self._is_timed = False

    def begin(self, opening: Opening, caller: Caller) -> tuple[IncomingLink, ReceiverState]:
        """Accept a sender, which :meth:`end` ends. Raises as ``Channels.accept``."""
        link = LocalLink(lambda: self._partner, self._manager.name, caller)
        state = link.negotiate(opening)
        incoming = IncomingLink(self._manager, opening, link)
        with self._lock:
            self._links.add(incoming)
            is_first, self._is_timed = not self._is_timed, True
        if is_first:
            # No wake is needed later: a clock looks at least once a second.
            self._manager.clock.attach(self)
        return incoming, state

    def now_ms(self) -> int:
        """Return the time of this queue manager."""
        return self._manager.now_ms()

    def check_receiver(self, channel: str) -> None:
        """Raise why no sender could begin on a channel now; see ``Channels.check_receiver``."""
        self._partner.check_receiver(channel)

    def end(self, incoming: IncomingLink) -> None:
        """End a link, if it has not ended already; unconfirmed messages are backed out."""
        with self._lock:
            self._links.discard(incoming)
        incoming.close()

    def close(self) -> None:
        """End all of them, with the queue manager."""
        if self._is_timed:
            self._manager.clock.detach(self)
        for incoming in list(self._links):
            self.end(incoming)

    def next_due_ms(self) -> int | None:
        """Return the clock's time at which the next one has been silent for too long."""
        with self._lock:
            moments = [one.until_ms for one in self._links if one.until_ms is not None]
        return min(moments) - self._manager.ahead_ms if moments else None

    def run_due(self) -> None:
        """End those whose senders have been silent for too long."""
        now_ms = self._manager.now_ms()
        with self._lock:
            silent = [
                one for one in self._links if one.until_ms is not None and one.until_ms <= now_ms
            ]
        for incoming in silent:
            self.end(incoming)
