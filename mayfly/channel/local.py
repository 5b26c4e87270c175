"""A link between two queue managers of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from mayfly.channel.links import NO_TRAFFIC, LinkDown, Traffic
from mayfly.channel.receiver import GONE, Caller, Receiver
from mayfly.mqi.errors import MQError
from mayfly.verbs.contracts.channels import Opening, Parcel, ReceiverState


class Partner(Protocol):
    """The other queue manager's channels, as far as a link uses them."""

    def accept(self, opening: Opening, caller: Caller | None) -> tuple[Receiver, ReceiverState]:
        """Begin to receive from a sender, which has come over a network if it has a caller."""

    def check_receiver(self, channel: str) -> None:
        """Raise why no sender could begin."""


class LocalLink:
    """Calls the receiver in the sender's own thread."""

    def __init__(
        self, find: Callable[[], Partner | None], name: str, caller: Caller | None = None
    ) -> None:
        """Lead to a queue manager of this process, wherever ``find`` finds it now.

        Raises LinkDown when it is not open.
        """
        self._caller = caller
        partner = find()
        if partner is None:
            raise LinkDown(f"queue manager {name!r} is not open in this process")
        self._partner = partner
        self._receiver: Receiver | None = None

    def negotiate(self, opening: Opening) -> ReceiverState:
        """Begin to send."""
        with _answering():
            self._receiver, standing = self._partner.accept(opening, self._caller)
        return standing

    def send(self, parcels: Sequence[Parcel]) -> int | None:
        """Put a batch."""
        with _answering():
            return self._open().take_in(parcels)

    def hand_over(self, parcels: Sequence[Parcel], spent_ms: int = 0) -> int:
        """Keep a batch, whose messages have been coming in for ``spent_ms``."""
        with _answering():
            return self._open().keep(parcels, spent_ms)

    def go_on(self, transit_ms: int) -> int | None:
        """Put what is kept, or could not be put."""
        with _answering():
            return self._open().go_on(transit_ms)

    def confirm(self, luw: str, sequence: int) -> None:
        """Commit the batch."""
        with _answering():
            self._open().commit(luw, sequence)

    def ping(self, channel: str) -> None:
        """Find out whether the channel is defined there."""
        with _answering():
            self._partner.check_receiver(channel)

    def traffic(self) -> Traffic:
        """Return that nothing goes over a network."""
        return NO_TRAFFIC

    @property
    def connection_number(self) -> int:
        """The number of the receiver's connection to its queue manager, 0 without a receiver."""
        return 0 if self._receiver is None else self._receiver.connection_number

    def close(self) -> None:
        """End."""
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.close()

    def _open(self) -> Receiver:
        receiver = self._receiver
        if receiver is None:
            raise LinkDown("the link is closed")
        return receiver


@contextmanager
def _answering() -> Iterator[None]:
    """A queue manager that is gone does not answer."""
    try:
        yield
    except MQError as error:
        if error.reason in GONE:
            raise LinkDown(f"the partner has ended: {error}") from error
        raise
