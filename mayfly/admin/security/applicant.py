"""A program that asks to be let in, and the terms on which it was let in."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from mayfly.engine import LONGEST_MESSAGE_BYTES

#: The terms of a connection that names no channel.
HEARTBEAT_S: Final = 300
SHARED_CONVERSATIONS: Final = 10
NO_LIMIT: Final = 999_999_999


@dataclass(frozen=True, slots=True, kw_only=True)
class Applicant:
    """A program that asks for a connection.

    ``address`` is that of the peer without its port, empty for a UNIX socket. A blank ``channel``
    is that of a local connection, or of an operator. ``has_tls`` says that nobody on the way can
    read ``password``; subject and issuer are those of the peer's certificate, which TLS has
    verified, empty without one. With ``sending_manager`` it is a message channel of another queue
    manager. With ``must_prove_user`` a user that the program names needs a password even where
    CHCKCLNT asks for none: over HTTP anybody can name one. Admission fills in the ``host_names`` of
    the address when a rule asks for them. ``is_of_this_process`` is for clocks of tests alone: it
    is what the program says.
    """

    queue_manager: str
    address: str
    channel: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    has_tls: bool = False
    certificate_subject: str = ""
    certificate_issuer: str = ""
    application: str = ""
    sending_manager: str = ""
    must_prove_user: bool = False
    host_names: tuple[str, ...] = ()
    is_of_this_process: bool = False

    @property
    def is_local(self) -> bool:
        """Whether the peer is on this machine."""
        return is_local(self.address)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The terms on which a program was let in.

    ``user`` and ``groups`` are those whose authority counts. An operator may do everything, like
    the opener of the queue manager, and ``user`` then only stands in messages. The server counts
    the instances of a channel, and those from one address.
    """

    user: str
    groups: tuple[str, ...] = ()
    is_operator: bool = False
    heartbeat_s: int = HEARTBEAT_S
    share_conversations: int = SHARED_CONVERSATIONS
    max_message_bytes: int = LONGEST_MESSAGE_BYTES
    max_instances: int = NO_LIMIT
    max_instances_per_client: int = NO_LIMIT


def is_local(address: str) -> bool:
    """Return True if an address is a UNIX socket or on the loopback interface."""
    if not address:
        return True
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback
