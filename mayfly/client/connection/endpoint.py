"""The endpoint of a client connection: addresses, channel, queue manager and TLS.

An endpoint is a value. A URL gives one here, tables and environment variables give one in ``ccdt``
and ``choose``, and a program may make its own.
"""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import SplitResult, parse_qs, parse_qsl, unquote, urlsplit

from mayfly.mqi import reasons as rc
from mayfly.mqi.channel_names import places_of
from mayfly.mqi.errors import MQError, mq_error

if TYPE_CHECKING:
    import ssl

DEFAULT_PORT = 1414
#: Defaults of a channel definition, as in MQCD and in IBM's JSON table.
DEFAULT_HEARTBEAT_S = 300
DEFAULT_SHARE_CONVERSATIONS = 10
DEFAULT_MESSAGE_BYTES = 4_194_304

#: Reasons for which a queue manager cannot be reached now, at this address.
UNREACHABLE = frozenset(
    {
        rc.MQRC_CONNECTION_BROKEN,
        rc.MQRC_HOST_NOT_AVAILABLE,
        rc.MQRC_Q_MGR_NOT_AVAILABLE,
        rc.MQRC_Q_MGR_QUIESCING,
        rc.MQRC_Q_MGR_STOPPING,
    }
)

#: How far an attempt to connect came, by its reason: to nobody, to somebody else than a server,
#: to a server that ends, through TLS, to a server without the queue manager, to a channel.
_STEPS = {
    reason: step
    for step, reasons in enumerate(
        (
            (rc.MQRC_HOST_NOT_AVAILABLE,),
            (rc.MQRC_Q_MGR_NOT_AVAILABLE,),
            (rc.MQRC_CONNECTION_BROKEN, rc.MQRC_Q_MGR_QUIESCING, rc.MQRC_Q_MGR_STOPPING),
            (rc.MQRC_SSL_INITIALIZATION_ERROR,),
            (rc.MQRC_Q_MGR_NAME_ERROR,),
            (rc.MQRC_UNKNOWN_CHANNEL_NAME,),
            (rc.MQRC_CHANNEL_NOT_AVAILABLE,),
        )
    )
    for reason in reasons
}


def further(earlier: MQError | None, later: MQError) -> MQError:
    """Return that of two failed attempts to connect that came further; of equal ones the later.

    ``earlier`` is None for no attempt before. An error that is about another step came furthest.
    """
    if earlier is None:
        return later
    steps = [_STEPS.get(error.reason, len(_STEPS)) for error in (earlier, later)]
    return earlier if steps[0] > steps[1] else later


#: A CipherSpec -> the TLS versions that it allows, lowest and highest; None is any.
_ANY_CIPHER = {
    "ANY": ("TLSv1_2", None),
    "ANY_TLS12": ("TLSv1_2", "TLSv1_2"),
    "ANY_TLS12_OR_HIGHER": ("TLSv1_2", None),
    "ANY_TLS13": ("TLSv1_3", "TLSv1_3"),
    "ANY_TLS13_OR_HIGHER": ("TLSv1_3", None),
}


class Reconnect(Enum):
    """Whether a broken connection reconnects: DEFRECON of a channel, or an MQCNO_RECONNECT option.

    NO and YES of a channel apply unless the program chooses otherwise. DISABLED of a channel always
    applies. QUEUE_MANAGER reconnects to the same queue manager only.
    """

    NO = "no"
    YES = "yes"
    QUEUE_MANAGER = "queue manager"
    DISABLED = "disabled"


class Address(NamedTuple):
    """A host, by name or IP address, and a port."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        """Return ``host(port)``, as in CONNAME."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}({self.port})"


#: A path is that of a UNIX socket.
AnyAddress: TypeAlias = Address | Path


class Tls(NamedTuple):
    """The encryption of a connection, and the certificates that the client trusts.

    ``cipher`` is a CipherSpec. ``authorities`` is a PEM file of trusted certificates, None for
    those of the machine. ``certificate`` is a PEM file with the client's own certificate and
    private key; ``key`` is a separate file of that key. ``peer_name`` (SSLPEER) is a pattern of the
    distinguished name of the server; without it, the certificate must have the host name.
    """

    cipher: str = "ANY_TLS12_OR_HIGHER"
    authorities: Path | None = None
    certificate: Path | None = None
    peer_name: str = ""
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return an SSLContext with these settings; the certificate files are read now.

        Raises MQRC_KEY_REPOSITORY_ERROR for a file that is missing or not PEM, and
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
            text = f"{' or '.join(files)}: {error}"
            raise mq_error(rc.MQRC_KEY_REPOSITORY_ERROR, text) from error
        _restrict(made, self.cipher)
        return made


class Endpoint(NamedTuple):
    """The addresses of a queue manager, and the channel by which clients reach it.

    The addresses are tried in order. A blank ``queue_manager`` accepts any that answers. ``tls``
    None is a plain connection. ``heartbeat_s`` is in seconds, 0 sends no heartbeats.
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
    """Return the addresses of a CONNAME: ``host``, ``host(1414)`` or a list with commas.

    An IPv6 address may have square brackets. Raises MQRC_HOST_NOT_AVAILABLE for a wrong CONNAME.
    """
    try:
        places = places_of(connection_name)
    except ValueError as error:
        text = f"connection name {connection_name!r}: {error}"
        raise mq_error(rc.MQRC_HOST_NOT_AVAILABLE, text) from error
    return tuple(Address(host, DEFAULT_PORT if port is None else port) for host, port in places)


def _restrict(context: ssl.SSLContext, cipher: str) -> None:
    """Limit a context to the TLS versions and cipher suites of a CipherSpec.

    Raises MQRC_SSL_INITIALIZATION_ERROR for a CipherSpec that this OpenSSL does not have.
    """
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
        text = f"CipherSpec {cipher!r} is not known here: {error}"
        raise mq_error(rc.MQRC_SSL_INITIALIZATION_ERROR, text) from error


def _openssl_name(cipher: str) -> str:
    """Return OpenSSL's name of a CipherSpec or cipher suite of TLS 1.2.

    ``ECDHE_RSA_AES_256_GCM_SHA384`` and ``TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`` both become
    ``ECDHE-RSA-AES256-GCM-SHA384``; a leading ``RSA_`` is dropped.
    """
    name = cipher.removeprefix("TLS_").replace("_WITH_", "_").removeprefix("RSA_")
    name = re.sub(r"AES_(128|256)", r"AES\1", name)
    return name.replace("AES128_CBC", "AES128").replace("AES256_CBC", "AES256").replace("_", "-")


#: As in the classes for JMS of IBM MQ: the channel when none is named.
DEFAULT_CHANNEL = "SYSTEM.DEF.SVRCONN"
_SCHEMES = {"mq": None, "mqs": Tls()}
_PARAMETERS = ("channel", "cipher", "ca", "certificate", "peer")


def is_url(name: str) -> bool:
    """Return True if a text is a URL; the name of a queue manager has no colon."""
    return "://" in name


def endpoint_of_url(url: str, tls: Tls | None = None) -> Endpoint:
    """Return the endpoint of a URL, ``mq://host:1414/QM1?channel=DEV.APP.SVRCONN``.

    Several hosts, separated by commas, are tried in order. The parameters are ``channel``, and for
    ``mqs://`` ``cipher`` (a CipherSpec), ``ca`` and ``certificate`` (PEM files) and ``peer``
    (SSLPEER). An empty path accepts any queue manager. ``tls`` encrypts a ``mq://`` URL as well.
    Raises MQRC_CLIENT_CONN_ERROR for a wrong URL.
    """
    parts = _split(url)
    if parts.scheme not in _SCHEMES:
        raise _wrong(url, f"{parts.scheme}:// is neither mq:// nor mqs://")
    if "@" in parts.netloc:
        raise _wrong("", "a user stands in user= and password=, not in a URL, which gets logged")
    addresses = tuple(_address(each, url) for each in parts.netloc.split(","))
    if parts.fragment:
        raise _wrong(url, f"#{parts.fragment} means nothing here")
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    for key in given:
        if key not in _PARAMETERS:
            raise _wrong(url, f"{key!r} is none of {', '.join(_PARAMETERS)}")
    channel = given.pop("channel", DEFAULT_CHANNEL)
    tls = tls or _SCHEMES[parts.scheme]
    if given and tls is None:
        raise _wrong(url, f"{', '.join(given)} without TLS: write mqs://")
    if tls is not None:
        tls = _with(tls, given)
    return Endpoint(addresses, channel, unquote(parts.path.strip("/")), tls)


def names_channel(url: str) -> bool:
    """Return True if a URL has a ``channel`` parameter."""
    return "channel" in parse_qs(_split(url).query)


def _split(url: str) -> SplitResult:
    """Return the parts of a URL; ``netloc`` may be several hosts, which urlsplit rejects.

    ``mq://a,b:1414/QM1`` has netloc ``a,b:1414`` and path ``/QM1``.
    """
    scheme, _, rest = url.partition("://")
    hosts, _, _ = rest.replace("?", "/").replace("#", "/").partition("/")
    parts = urlsplit(f"//{rest[len(hosts) :]}")
    return parts._replace(scheme=scheme.lower(), netloc=hosts)


def _with(tls: Tls, given: dict[str, str]) -> Tls:
    """Return ``tls`` with the files, cipher and peer name that parameters of a URL set.

    A certificate in the URL has its private key in the same file: ``key`` becomes None.
    """
    tls = tls._replace(
        cipher=given.get("cipher", tls.cipher),
        authorities=Path(given["ca"]) if "ca" in given else tls.authorities,
        peer_name=given.get("peer", tls.peer_name),
    )
    if "certificate" in given:
        tls = tls._replace(certificate=Path(given["certificate"]), key=None)
    return tls


def _address(text: str, url: str) -> Address:
    """Return the address for ``host:port`` or ``host``; raises MQRC_CLIENT_CONN_ERROR."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _wrong(url, f"{text!r} is no host:port: {error}") from None
    if not host or port == 0:
        raise _wrong(url, f"{text!r} is no host:port")
    return Address(host, DEFAULT_PORT if port is None else port)


def _wrong(url: str, text: str) -> MQError:
    """Return an MQRC_CLIENT_CONN_ERROR about a URL; an empty ``url`` keeps it out of the text."""
    return mq_error(rc.MQRC_CLIENT_CONN_ERROR, f"{url}: {text}" if url else text)
