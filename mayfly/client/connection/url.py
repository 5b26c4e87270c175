"""The URL of a queue manager: ``mq://host:1414/QM1?channel=DEV.APP.SVRCONN``."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, parse_qs, parse_qsl, unquote, urlsplit

from mayfly.client.connection.endpoint import DEFAULT_PORT, Address, Endpoint, Tls
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error

#: As in the classes for JMS of IBM MQ: the channel when none is named.
DEFAULT_CHANNEL = "SYSTEM.DEF.SVRCONN"
_SCHEMES = {"mq": None, "mqs": Tls()}
_PARAMETERS = ("channel", "cipher", "ca", "certificate", "peer")


def is_url(name: str) -> bool:
    """Return True if a text is a URL: the name of a queue manager has no colon."""
    return "://" in name


def endpoint_of_url(url: str, tls: Tls | None = None) -> Endpoint:
    """Return the endpoint of a URL; with ``tls`` a URL of ``mq://`` is encrypted as well.

    Several hosts with commas are tried in order. Parameters are ``channel``, and for ``mqs://``
    ``cipher`` (a CipherSpec), ``ca`` and ``certificate`` (PEM files) and ``peer`` (SSLPEER). With
    an empty path any queue manager that answers will do. Raises MQRC_CLIENT_CONN_ERROR.
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
    """Return True if a URL names its channel."""
    return "channel" in parse_qs(_split(url).query)


def _split(url: str) -> SplitResult:
    """Split a URL without a look at its hosts: to the library several of them are a wrong one."""
    scheme, _, rest = url.partition("://")
    hosts, _, _ = rest.replace("?", "/").replace("#", "/").partition("/")
    parts = urlsplit(f"//{rest[len(hosts) :]}")
    return parts._replace(scheme=scheme.lower(), netloc=hosts)


def _with(tls: Tls, given: dict[str, str]) -> Tls:
    return Tls(
        given.get("cipher", tls.cipher),
        Path(given["ca"]) if "ca" in given else tls.authorities,
        Path(given["certificate"]) if "certificate" in given else tls.certificate,
        given.get("peer", tls.peer_name),
    )


def _address(text: str, url: str) -> Address:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _wrong(url, f"{text!r} is no host:port: {error}") from None
    if not host or port == 0:
        raise _wrong(url, f"{text!r} is no host:port")
    return Address(host, DEFAULT_PORT if port is None else port)


def _wrong(url: str, said: str) -> MQError:
    return mq_error(rc.MQRC_CLIENT_CONN_ERROR, f"{url}: {said}" if url else said)
