"""Where a client connects to: addresses, channel, queue manager and TLS.

An endpoint is a value. ``ccdt`` and ``choose`` make endpoints of tables, environment variables and
URLs, a program makes one itself, and the remote connection tries its addresses in order.
"""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from mayfly.mqi import reasons as rc
from mayfly.mqi.connection_names import places_of
from mayfly.mqi.errors import mq_error

if TYPE_CHECKING:
    import ssl

DEFAULT_PORT = 1414
#: Defaults of a channel definition, as in MQCD and in IBM's JSON table.
DEFAULT_HEARTBEAT_S = 300
DEFAULT_SHARE_CONVERSATIONS = 10
DEFAULT_MESSAGE_BYTES = 4_194_304

#: A CipherSpec -> the TLS versions that it allows, lowest and highest; None is any.
_ANY_CIPHER = {
    "ANY": ("TLSv1_2", None),
    "ANY_TLS12": ("TLSv1_2", "TLSv1_2"),
    "ANY_TLS12_OR_HIGHER": ("TLSv1_2", None),
    "ANY_TLS13": ("TLSv1_3", "TLSv1_3"),
    "ANY_TLS13_OR_HIGHER": ("TLSv1_3", None),
}


class Reconnect(Enum):
    """Whether a connection that breaks is made again: DEFRECON of a channel, MQCNO_RECONNECT…

    NO and YES of a channel count unless the program asks for something else. DISABLED of a channel
    counts always. QUEUE_MANAGER reconnects to the same queue manager only.
    """

    NO = "no"
    YES = "yes"
    QUEUE_MANAGER = "queue manager"
    DISABLED = "disabled"


class Address(NamedTuple):
    """A host, by its name or number, and a port."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        """Return it as in CONNAME."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}({self.port})"


#: A path is that of a UNIX socket.
AnyAddress: TypeAlias = Address | Path


class Tls(NamedTuple):
    """The encryption of a connection, and the certificates that the client trusts.

    ``cipher`` is a CipherSpec. ``authorities`` is a PEM file of certificates that the client
    trusts, None those of the machine. ``certificate`` is a PEM file with the client's own
    certificate and private key, unless ``key`` is the file of the key. With ``peer_name``, a
    pattern of a distinguished name (SSLPEER), the server is known by that name; without one by the
    host name that the client has connected to.
    """

    cipher: str = "ANY_TLS12_OR_HIGHER"
    authorities: Path | None = None
    certificate: Path | None = None
    peer_name: str = ""
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return Python's SSLContext for such connections.

        Raises MQRC_KEY_REPOSITORY_ERROR for a file that is missing or no PEM file, and
        MQRC_SSL_INITIALIZATION_ERROR for a CipherSpec that this OpenSSL does not have.
        """
        import ssl

        try:
            made = ssl.create_default_context(cafile=self.authorities)
            made.check_hostname = not self.peer_name
            if self.certificate is not None:
                # An empty password: OpenSSL asks the terminal for that of a key that has one.
                made.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ssl.SSLError) as error:
            named = self.authorities, self.certificate, self.key
            files = [str(path) for path in named if path]
            said = f"{' or '.join(files)}: {error}"
            raise mq_error(rc.MQRC_KEY_REPOSITORY_ERROR, said) from error
        _restrict(made, self.cipher)
        return made


class Endpoint(NamedTuple):
    """A queue manager that listens somewhere, and the channel by which it is reached.

    The addresses are tried in order. ``queue_manager`` blank takes the one that answers. ``tls``
    None is a plain connection. ``heartbeat_s`` 0 sends no heartbeats.
    """

    addresses: tuple[AnyAddress, ...]
    channel: str
    queue_manager: str = ""
    tls: Tls | None = None
    heartbeat_s: int = DEFAULT_HEARTBEAT_S
    share_conversations: int = DEFAULT_SHARE_CONVERSATIONS
    max_message_bytes: int = DEFAULT_MESSAGE_BYTES

    def __str__(self) -> str:
        """Return channel and addresses as in MQSERVER."""
        return f"{self.channel}/TCP/{','.join(map(str, self.addresses))}"


def addresses_of(connection_name: str) -> tuple[Address, ...]:
    """Return the addresses of a CONNAME: ``host``, ``host(1414)``, a list with commas.

    An IPv6 number may stand in square brackets. Raises MQRC_HOST_NOT_AVAILABLE for what is none.
    """
    try:
        places = places_of(connection_name)
    except ValueError as error:
        said = f"connection name {connection_name!r}: {error}"
        raise mq_error(rc.MQRC_HOST_NOT_AVAILABLE, said) from error
    return tuple(Address(host, DEFAULT_PORT if port is None else port) for host, port in places)


def _restrict(context: ssl.SSLContext, cipher: str) -> None:
    """Let a context use the versions and suites of a CipherSpec alone."""
    import ssl

    if cipher in _ANY_CIPHER:
        lowest, highest = _ANY_CIPHER[cipher]
        context.minimum_version = ssl.TLSVersion[lowest]
        if highest:
            context.maximum_version = ssl.TLSVersion[highest]
        return
    known = {suite["name"]: suite["protocol"] for suite in context.get_ciphers()}
    if known.get(cipher) == "TLSv1.3":
        # OpenSSL's list of suites has those of 1.3 whatever is set: the version is what counts.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.set_ciphers(_openssl_name(cipher))
    except ssl.SSLError as error:
        said = f"CipherSpec {cipher!r} is not known here: {error}"
        raise mq_error(rc.MQRC_SSL_INITIALIZATION_ERROR, said) from error


def _openssl_name(cipher: str) -> str:
    """Return OpenSSL's name of a CipherSpec or cipher suite of TLS 1.2.

    ``ECDHE_RSA_AES_256_GCM_SHA384`` and ``TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`` are both
    ``ECDHE-RSA-AES256-GCM-SHA384``; suites with an RSA key exchange are named by the rest alone.
    """
    name = cipher.removeprefix("TLS_").replace("_WITH_", "_").removeprefix("RSA_")
    name = re.sub(r"AES_(128|256)", r"AES\1", name)
    return name.replace("AES128_CBC", "AES128").replace("AES256_CBC", "AES256").replace("_", "-")
