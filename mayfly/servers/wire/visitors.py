"""The server of the wire, as its door uses it: clients that may come in, and answers to others."""

from __future__ import annotations

from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import failure_of, mq_error
from mayfly.servers.clients import INSTANCE_NUMBERS
from mayfly.servers.wire.exchange import Exchange
from mayfly.servers.wire.link import Link
from mayfly.verbs.contracts.wire import ENDED, MAGIC, OURS, framed, packed, spoken_by


class Visitors:
    """Makes the server's ends of connections, and tells those that are not let in."""

    def __init__(self, exchange: Exchange) -> None:
        """Take what all connections share."""
        self._exchange, self.log = exchange, exchange.log

    @property
    def handshake_seconds(self) -> float | None:
        """The time to be let in is that of the handshake as well."""
        return self._exchange.limits.admission_ms / SECOND_MS or None

    def room(self) -> int:
        """Return how many connections more may come in."""
        return self._exchange.limits.connections - len(self._exchange.members)

    def new(self) -> Link:
        """Return the server's end of a connection."""
        return Link(self._exchange, next(INSTANCE_NUMBERS))

    def without_tls(self, client: str, first: bytes) -> bytes:
        """Log who speaks without TLS; a program of ours is told MQRC_SSL_INITIALIZATION_ERROR."""
        if not first.startswith(MAGIC):
            said = "AMQ9207E: %s speaks %s, where TLS alone is spoken"
            self.log.warning(said, client, spoken_by(first))
            return b""
        self.log.warning("AMQ9639E: %s has no CipherSpec, and TLS alone is spoken here", client)
        error = mq_error(rc.MQRC_SSL_INITIALIZATION_ERROR, "the server speaks TLS alone")
        return OURS.packed() + framed(0, ENDED, packed([ENDED, failure_of(error)]))
