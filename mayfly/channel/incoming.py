"""The links of senders in other processes: one for each sender's name.

A sender that dies sends no word of it. Its unconfirmed messages are backed out when it comes again,
when its channel is stopped, or here, once it has been silent for too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mayfly.channel.links import LinkDown, Parcel
from mayfly.channel.local import LocalLink, Partner
from mayfly.contracts.channels import Opening, ReceiverState
from mayfly.engine import Engine
from mayfly.lifetime.transmission import silence_ms

_ID_BYTES = 16


class _Incoming:
    """One link, and until when its sender must have spoken; None while it is being answered."""

    def __init__(self, opening: Opening, link: LocalLink) -> None:
        self.sender = opening.channel, opening.manager
        self.silence_ms = silence_ms(opening.heartbeat_s)
        self.link = link
        self.until_ms: int | None = None


class IncomingLinks:
    """Answers the calls of senders elsewhere; any thread may make them."""

    def __init__(self, manager: Engine, partner: Partner) -> None:
        """Begin with none; ``partner`` accepts them."""
        self._manager = manager
        self._partner = partner
        self._lock = manager.runtime.lock("incoming links")
        self._links: dict[str, _Incoming] = {}
        self._is_timed = False

    def begin(self, opening: Opening) -> tuple[str, ReceiverState]:
        """Accept a sender; returns the name of its link. Raises as ``Channels.accept``."""
        link = LocalLink(lambda: self._partner, self._manager.name)
        standing = link.negotiate(opening)
        incoming, name = (
            _Incoming(opening, link),
            self._manager.runtime.random_bytes(_ID_BYTES).hex(),
        )
        self._heard(incoming)
        with self._lock:
            # An earlier one of this sender has lost its receiver to it.
            self._links = {
                n: one for n, one in self._links.items() if one.sender != incoming.sender
            }
            self._links[name] = incoming
            is_first, self._is_timed = not self._is_timed, True
        if is_first:
            # No wake is needed later: a clock looks at least once a second.
            self._manager.clock.attach(self)
        return name, standing

    def now_ms(self) -> int:
        """Return the time of this queue manager."""
        return self._manager.now_ms()

    def send(self, name: str, parcels: Sequence[Parcel]) -> int | None:
        """Put a batch; returns as ``Link.send``. Raises LinkDown for a link that has ended."""
        return self._answer(name, lambda link: link.send(parcels))

    def hand_over(self, name: str, parcels: Sequence[Parcel], spent_ms: int) -> int:
        """Keep a batch that has come in since ``spent_ms``; as ``Link.hand_over``."""
        had_ms = 0

        def keep(link: LocalLink) -> None:
            nonlocal had_ms
            had_ms = link.hand_over(parcels, spent_ms)

        self._answer(name, keep)
        return had_ms

    def go_on(self, name: str, transit_ms: int) -> int | None:
        """Put what is kept, or could not be put; as :meth:`send`."""
        return self._answer(name, lambda link: link.go_on(transit_ms))

    def confirm(self, name: str, luw: str, sequence: int) -> None:
        """Commit a batch; raises as :meth:`send`."""
        self._answer(name, lambda link: link.confirm(luw, sequence))

    def ping(self, name: str, channel: str) -> None:
        """Say whether a channel receives, and that the sender lives if it has a link."""
        if name:
            self._answer(name, lambda link: link.ping(channel))
        else:
            self._partner.check_receiver(channel)

    def end(self, name: str) -> None:
        """End a link, if it has not ended already; unconfirmed messages are backed out."""
        with self._lock:
            incoming = self._links.pop(name, None)
        if incoming is not None:
            incoming.link.close()

    def close(self) -> None:
        """End all of them, with the queue manager."""
        if self._is_timed:
            self._manager.clock.detach(self)
        for name in list(self._links):
            self.end(name)

    def next_due_ms(self) -> int | None:
        """Return the clock's time at which the next one has been silent for too long."""
        with self._lock:
            moments = [one.until_ms for one in self._links.values() if one.until_ms is not None]
        return min(moments) - self._manager.ahead_ms if moments else None

    def run_due(self) -> None:
        """End those whose senders have been silent for too long."""
        now_ms = self._manager.now_ms()
        with self._lock:
            silent = [
                name
                for name, one in self._links.items()
                if one.until_ms is not None and one.until_ms <= now_ms
            ]
        for name in silent:
            self.end(name)

    def _answer(self, name: str, call: Callable[[LocalLink], int | None]) -> int | None:
        with self._lock:
            incoming = self._links.get(name)
        if incoming is None:
            raise LinkDown(f"{self._manager.name} has ended this link, or never had it")
        incoming.until_ms = wait_ms = None
        try:
            wait_ms = call(incoming.link)
        finally:
            self._heard(incoming, wait_ms or 0)
        return wait_ms

    def _heard(self, incoming: _Incoming, wait_ms: int = 0) -> None:
        if incoming.silence_ms is not None:
            incoming.until_ms = self._manager.now_ms() + wait_ms + incoming.silence_ms
