"""A client that is to go: it keeps what it has until that is settled, and gets nothing more."""

from __future__ import annotations

from mayfly.servers.amqp.peer import Peer


def quiesce(peer: Peer, condition: str, why: str) -> None:
    """End the connection of a client with a condition, once it has nothing left to end.

    Its links send no messages meanwhile. A message that the client holds, one that is being put and
    an open transaction are left to end. Call it again until the connection is gone.
    """
    have_ended = [link.quiesce() for link in list(peer.links.values())]
    conversations = peer.conversations
    if all(have_ended) and (conversations is None or not conversations.has_transactions):
        peer.stop(condition, why)
    else:
        peer.pump()
