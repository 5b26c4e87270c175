"""The server of AMQP, as its door uses it: clients that may come in, and answers to others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final

from mayfly.servers.amqp.peer import ENTRANCE_SECONDS, Peer
from mayfly.verbs.contracts.wire import spoken_by

#: As many connections at a time as of the network protocol of Mayfly.
MOST_CONNECTIONS: Final = 10_000
_AMQP: Final = b"AMQP"
#: The protocol header by which a server says that it speaks TLS alone (AMQP 1.0, 5.2).
_TLS_HEADER: Final = b"AMQP\x02\x01\x00\x00"


class Visitors:
    """Tells those that are not let in, and has an end of a connection made for the others."""

    def __init__(
        self, new: Callable[[], Peer], peers: Collection[Peer], log: logging.Logger
    ) -> None:
        """Take the maker of the server's ends, and those of the connections that are in."""
        #: Returns the server's end of a connection.
        self.new = new
        self._peers, self.log = peers, log

    @property
    def handshake_seconds(self) -> float:
        """The time to say who one is is that of the handshake as well."""
        return ENTRANCE_SECONDS

    def room(self) -> int:
        """Return how many connections more may come in."""
        return MOST_CONNECTIONS - len(self._peers)

    def without_tls(self, client: str, first: bytes) -> bytes:
        """Log who speaks without TLS; a client of AMQP is told that it has to begin with TLS."""
        if first.startswith(_AMQP):
            self.log.warning("AMQ9639E: %s has no CipherSpec, and TLS alone is spoken here", client)
            return _TLS_HEADER
        said = "AMQ9207E: %s speaks %s, where TLS alone is spoken"
        self.log.warning(said, client, spoken_by(first))
        return b""
