"""IBM's client channel definition table (CCDT) in JSON, and the choice of a channel from it.

IBM's client ignores an unknown key, so that a typing error can leave a channel without TLS. Here
such a key is a warning in the log, which names its place in the file (docs/CLIENTS.md).
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import Request, urlopen

from mayfly.client.connection.endpoint import (
    DEFAULT_HEARTBEAT_S,
    DEFAULT_MESSAGE_BYTES,
    DEFAULT_PORT,
    DEFAULT_SHARE_CONVERSATIONS,
    Address,
    Endpoint,
    Reconnect,
    Tls,
)
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.runtime.clocks import elapsed_ms
from mayfly.verbs.contracts.config_files import suggestion

_LOG: Final = logging.getLogger("mayfly.client")
_RECONNECTS = {
    "no": Reconnect.NO,
    "yes": Reconnect.YES,
    "queueManager": Reconnect.QUEUE_MANAGER,
    "disabled": Reconnect.DISABLED,
}
_NO_EXITS = "exits are programs for IBM's client: they cannot run here"
#: Sections with values that change nothing here, and their keys.
_PASSED_OVER = {
    "compression": ("header", "message"),
    "timestamps": ("altered",),
}


class ClientChannel(NamedTuple):
    """A client connection channel of the table.

    ``group`` is its queueManager: the queue manager name, or queue manager group, that programs ask
    for. Channels of ``weight`` 0 are tried first, in the order of their names. ``is_preferred`` is
    affinity: a process keeps the channel it has chosen. ``label`` names the client certificate.
    """

    endpoint: Endpoint
    group: str
    weight: int
    is_preferred: bool
    reconnect: Reconnect
    label: str


class ChannelTable:
    """The channels of one table, and the order in which this process tries them."""

    def __init__(self, channels: Sequence[ClientChannel]) -> None:
        """Take the channels of the table, in the order of the file."""
        self.channels = tuple(channels)
        self._orders: dict[str, list[ClientChannel]] = {}

    def candidates(
        self, name: str, random_bytes: Callable[[int], bytes]
    ) -> Iterator[ClientChannel]:
        """Yield the channels for a queue manager name in the order in which to try them.

        ``QM1`` selects channels with that queueManager. ``*GROUP`` selects those of GROUP and
        accepts any queue manager name. Blank and ``*`` select those without a queueManager. Asking
        for the next channel means that the last one failed. A failed channel with a weight and
        affinity moves to the end of the order. ``random_bytes`` returns as many random bytes as it
        is asked for; they decide the order of channels with a weight. Raises MQRC_Q_MGR_NAME_ERROR
        when no channel matches.
        """
        group = name.removeprefix("*")
        rows = [row for row in self.channels if row.group in (group, group or "*")]
        if not rows:
            known = ", ".join(sorted({row.group or "(blank)" for row in self.channels}))
            text = f"no channel for queueManager {group!r}; the table has {known or 'none'}"
            raise mq_error(rc.MQRC_Q_MGR_NAME_ERROR, text)
        is_kept = rows[0].is_preferred
        order = self._orders.get(group) if is_kept else None
        if order is None:
            order = _weighted(rows, random_bytes)
        if is_kept:
            self._orders[group] = order
        is_any = not group or name.startswith("*")
        for row in tuple(order):
            asked = "" if is_any else name
            yield row._replace(endpoint=row.endpoint._replace(queue_manager=asked))
            if row.weight and is_kept:
                order.remove(row)
                order.append(row)


def _weighted(
    rows: Sequence[ClientChannel], random_bytes: Callable[[int], bytes]
) -> list[ClientChannel]:
    """Return the channels without a weight by name, then the others at random by weight."""
    order = sorted((row for row in rows if not row.weight), key=lambda row: row.endpoint.channel)
    left = [row for row in rows if row.weight]
    while left:
        at = int.from_bytes(random_bytes(8)) % sum(row.weight for row in left)
        for row in left:
            at -= row.weight
            if at < 0:
                break
        left.remove(row)
        order.append(row)
    return order


def read_table(path: Path) -> ChannelTable:
    """Read the table in a file.

    Raises OSError for a file that cannot be read. Raises MQRC_CLIENT_CONN_ERROR for an invalid
    table; its text names the wrong value and its place.
    """
    return table_of(path.read_bytes(), str(path))


def table_of(content: bytes, path: str) -> ChannelTable:
    """Parse a table; raises MQRC_CLIENT_CONN_ERROR. ``path`` names the file or URL in errors."""
    try:
        text = content.decode("utf-8-sig")
        if "\0" in text:
            raise _wrong(path, "", _BINARY)
        values = json.loads(text, object_pairs_hook=_without_repeats)
    except UnicodeDecodeError:
        raise _wrong(path, "", _BINARY) from None
    except (ValueError, RecursionError) as error:
        raise _wrong(path, "", f"is no JSON: {error}") from error
    top = _Object(values, path, "")
    channels = [_channel(row) for row in top.objects("channel")]
    top.warn_of_unknown_keys()
    return ChannelTable(channels)


_BINARY = (
    "is a binary table (AMQCLCHL.TAB), which only IBM's client reads: name a table in JSON, as"
    " runmqsc or the documentation of IBM MQ shows it"
)


def _channel(row: _Object) -> ClientChannel:
    """Return the channel in a JSON object.

    An unknown key is a warning. Raises MQRC_CLIENT_CONN_ERROR for a wrong value or an exit.
    """
    row.word("type", {"clientConnection": None})
    name = row.text("name")
    if not name or len(name) > 20:
        raise row.error("name", f"{name!r} is no channel name of 1 to 20 characters")
    connection = row.object("clientConnection")
    addresses = tuple(map(_address, connection.objects("connection")))
    if not addresses:
        raise connection.error("connection", "has no host")
    group = connection.text("queueManager", "")
    managed = row.object("connectionManagement")
    weight = managed.number("clientWeight", 0, 99, default=0)
    affinity = managed.word("affinity", {"preferred": True, "none": False}, default=True)
    reconnect = managed.word("defaultReconnect", _RECONNECTS, default=Reconnect.NO)
    heartbeat_s = managed.number("heartbeatInterval", 0, 999_999, default=DEFAULT_HEARTBEAT_S)
    share = managed.number(
        "sharingConversations", 0, 999_999_999, default=DEFAULT_SHARE_CONVERSATIONS
    )
    for passed_over in ("disconnectInterval", "keepAliveInterval", "localAddress"):
        managed.take(passed_over)
    general = row.object("general")
    general.take("description")
    longest = general.number("maximumMessageLength", 0, 104_857_600, default=DEFAULT_MESSAGE_BYTES)
    security = row.object("transmissionSecurity")
    cipher, peer = (
        security.text("cipherSpecification", ""),
        security.text("certificatePeerName", ""),
    )
    label = security.text("certificateLabel", "")
    _refuse_exits(row.object("exits"))
    for section, keys in _PASSED_OVER.items():
        inner = row.object(section)
        for key in keys:
            inner.take(key)
        inner.warn_of_unknown_keys()
    for part in (connection, managed, general, security, row):
        part.warn_of_unknown_keys()
    tls = Tls(cipher, peer_name=peer) if cipher else None
    endpoint = Endpoint(addresses, name, "", tls, heartbeat_s, share, longest)
    return ClientChannel(endpoint, group, weight, affinity, reconnect, label)


def _address(row: _Object) -> Address:
    """Return the address in ``{"host": …, "port": …}``; the port has a default.

    Raises MQRC_CLIENT_CONN_ERROR for a missing host or a wrong port.
    """
    host = row.text("host")
    if not host.strip():
        raise row.error("host", f"{host!r} is no host")
    port = row.number("port", 1, 65_535, default=DEFAULT_PORT)
    row.warn_of_unknown_keys()
    return Address(host.strip(), port)


def _refuse_exits(exits: _Object) -> None:
    """Raise MQRC_CLIENT_CONN_ERROR if the channel names an exit."""
    for kind in ("receive", "send", "security"):
        value = exits.take(kind)
        entries = value if isinstance(value, list) else [value]
        if any(entry and any(entry.values()) for entry in entries if isinstance(entry, dict)):
            raise exits.error(kind, _NO_EXITS)
    exits.warn_of_unknown_keys()


class _Object:
    """A JSON object with its place in the file, which records the keys that were read.

    Wrong values raise MQRC_CLIENT_CONN_ERROR, whose text names the place: ``channel[0].name``.
    """

    def __init__(self, values: object, path: str, where: str) -> None:
        """Take the parsed JSON of file ``path`` at place ``where``, such as ``channel[0]``.

        Raises MQRC_CLIENT_CONN_ERROR for JSON that is no object.
        """
        if not isinstance(values, dict):
            raise _wrong(path, where, f"{values!r} is no object: write {{…}}")
        self._left: dict[str, Any] = dict(values)
        self._asked: list[str] = []
        self._path, self._where = path, where

    def error(self, key: str, text: str) -> MQError:
        """Return an MQRC_CLIENT_CONN_ERROR about a key, with its place in the file."""
        return _wrong(self._path, self._place(key), text)

    def take(self, key: str) -> Any:
        """Return the value of a key, None if the key is missing; record that it was read."""
        self._asked.append(key)
        return self._left.pop(key, None)

    def text(self, key: str, default: str | None = None) -> str:
        """Return the string of a key, or ``default`` if the key is missing.

        Raises MQRC_CLIENT_CONN_ERROR for a value that is no string, and for a missing key if
        ``default`` is None.
        """
        value = self.take(key)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.error(key, "is missing")
        if not isinstance(value, str):
            raise self.error(key, f"{value!r} is no text")
        return value

    def word(self, key: str, words: dict[str, Any], default: Any = None) -> Any:
        """Return the value in ``words`` for the string of a key; ``default`` if the key is missing.

        Raises MQRC_CLIENT_CONN_ERROR for a string that is not in ``words``, and for a missing key
        if ``default`` is None.
        """
        value = self.text(key, None if default is None else "")
        if not value and default is not None:
            return default
        if value not in words:
            raise self.error(key, f"{value!r} is none of {', '.join(words)}")
        return words[value]

    def number(self, key: str, lowest: int, highest: int, *, default: int) -> int:
        """Return an integer from ``lowest`` to ``highest``; ``default`` if the key is missing.

        Raises MQRC_CLIENT_CONN_ERROR for any other value.
        """
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
            raise self.error(key, f"{value!r} is no whole number from {lowest} to {highest}")
        return value

    def object(self, key: str) -> _Object:
        """Return a nested object, an empty one if the key is missing.

        Raises MQRC_CLIENT_CONN_ERROR for a value that is no object.
        """
        value = self.take(key)
        return _Object({} if value is None else value, self._path, self._place(key))

    def objects(self, key: str) -> list[_Object]:
        """Return a list of nested objects.

        Raises MQRC_CLIENT_CONN_ERROR if the key is missing or the value is no list of objects.
        """
        value = self.take(key)
        if not isinstance(value, list):
            text = "is missing" if value is None else f"{value!r} is no list: write […]"
            raise self.error(key, text)
        return [
            _Object(row, self._path, f"{self._place(key)}[{number}]")
            for number, row in enumerate(value)
        ]

    def warn_of_unknown_keys(self) -> None:
        """Log a warning for each key of the object that was not read: it is unknown."""
        for key in self._left:
            text = f"is no key here, and is not used{suggestion(key, self._asked)}"
            _LOG.warning("%s: %s: %s", self._path, self._place(key), text)

    def _place(self, key: str) -> str:
        """Return the place of a key in the file: ``channel[0].name``."""
        return f"{self._where}.{key}" if self._where else key


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the key-value pairs of a JSON object as a dict.

    Raises ValueError for a repeated key, of which JSON would keep the last value.
    """
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return made


def _wrong(path: str, where: str, text: str) -> MQError:
    """Return an MQRC_CLIENT_CONN_ERROR with ``text`` about the place ``where`` in a file or URL."""
    place = f"{path}: {where}" if where else path
    return mq_error(rc.MQRC_CLIENT_CONN_ERROR, f"{place}: {text}")


#: The time limit for fetching the complete table, and its largest size.
PATIENCE_SECONDS: Final = 30
MAX_BYTES: Final = 4_194_304
_CHUNK_BYTES: Final = 65_536
#: The default of MQCHLTAB in IBM's client.
_DEFAULT_TABLE: Final = "AMQCLCHL.TAB"

#: Tables that this process has read: by their files, with time and size; by URL, with their bytes.
_of_files: dict[Path, tuple[tuple[int, int], ChannelTable]] = {}
_of_urls: dict[str, tuple[bytes, ChannelTable]] = {}


def named_table(environment: Mapping[str, str]) -> ChannelTable | None:
    """Return the table that an environment names, None when it names none.

    A file is read again when its time or size has changed, a URL is fetched each time. Raises
    MQRC_CCDT_URL_ERROR for a wrong MQCCDTURL or a web server without the table. Raises
    MQRC_Q_MGR_NAME_ERROR when MQCHLLIB and MQCHLTAB name no file, and MQRC_CLIENT_CONN_ERROR for an
    invalid table.
    """
    if url := environment.get("MQCCDTURL"):
        parts = _parts_of(url)
        if parts.scheme in ("http", "https"):
            return _from_web(url, parts)
        path = _path_of_url(url, parts)
        if not path.is_file():
            raise mq_error(rc.MQRC_CCDT_URL_ERROR, f"MQCCDTURL {url!r}: {path} is not there")
        return _from_file(path)
    folder, file = environment.get("MQCHLLIB"), environment.get("MQCHLTAB")
    if not folder and not file:
        return None
    path = Path(folder or "", file or _DEFAULT_TABLE)
    if not path.is_file():
        text = f"MQCHLLIB and MQCHLTAB name {path}, which is not there"
        raise mq_error(rc.MQRC_Q_MGR_NAME_ERROR, text)
    return _from_file(path)


def _parts_of(url: str) -> SplitResult:
    """Split a URL; raises MQRC_CCDT_URL_ERROR, whose text has no password."""
    try:
        return urlsplit(url)
    except ValueError:
        # The URL, and so the library's error text, may contain a password.
        text = "the host in MQCCDTURL is no name and no address"
        raise mq_error(rc.MQRC_CCDT_URL_ERROR, text) from None


def _path_of_url(url: str, parts: SplitResult) -> Path:
    """Return the path in a ``file:`` URL, or a plain path; raises MQRC_CCDT_URL_ERROR.

    ``parts`` are those of ``url``. ``file:///etc/ccdt.json`` and ``/etc/ccdt.json`` both give
    ``/etc/ccdt.json``.
    """
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path:
            text = f"MQCCDTURL {url!r} is not file:///path"
            raise mq_error(rc.MQRC_CCDT_URL_ERROR, text)
        return Path(unquote(parts.path))
    if "://" in url:
        text = f"MQCCDTURL {url!r}: {parts.scheme} is none of file, http and https"
        raise mq_error(rc.MQRC_CCDT_URL_ERROR, text)
    return Path(url)


def _from_file(path: Path) -> ChannelTable:
    """Return the table in a file, which is parsed again only if the file has changed.

    Raises MQRC_CLIENT_CONN_ERROR for a file that cannot be read or is no valid table.
    """
    try:
        state = path.stat()
        version = state.st_mtime_ns, state.st_size
        known = _of_files.get(path)
        if known is not None and known[0] == version:
            return known[1]
        table = read_table(path)
    except OSError as error:
        text = f"{path} cannot be read: {error.strerror}"
        raise mq_error(rc.MQRC_CLIENT_CONN_ERROR, text) from error
    _of_files[path] = version, table
    return table


def _from_web(url: str, parts: SplitResult) -> ChannelTable:
    """Fetch the table at a URL and return it; it is parsed again only if its content has changed.

    ``parts`` are those of ``url``. Raises MQRC_CCDT_URL_ERROR when the server does not return it,
    and MQRC_CLIENT_CONN_ERROR for an invalid table.
    """
    # A password does not belong into errors and logs.
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    try:
        content = _fetch(_request(parts, shown), shown)
    except HTTPError as error:
        error.close()
        raise _unavailable(shown, str(error)) from None
    except (OSError, ValueError, HTTPException) as error:
        raise _unavailable(shown, str(error)) from error
    known = _of_urls.get(url)
    # The same table keeps the order in which this process has come to try its rows.
    if known is None or known[0] != content:
        known = _of_urls[url] = content, table_of(content, shown)
    return known[1]


def _request(parts: SplitResult, shown: str) -> Request:
    """Return the HTTP request for a table, with the user and password of the URL, if any.

    ``parts`` are those of the URL. ``shown`` is the URL without user and password.
    """
    request = Request(shown, headers={"Accept": "application/json"})
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        shown_to_server = base64.b64encode(pair.encode()).decode()
        # A server that it redirects to is not to have the password.
        request.add_unredirected_header("Authorization", f"Basic {shown_to_server}")
    return request


def _fetch(request: Request, shown: str) -> bytes:
    """Return the body of the HTTP answer to a request.

    ``shown`` is the URL for error texts. Raises MQRC_CCDT_URL_ERROR if it is longer than 4 MiB or
    takes longer than 30 seconds. Other failures raise OSError, ValueError or HTTPException.
    """
    end_ms = elapsed_ms() + PATIENCE_SECONDS * SECOND_MS
    content = b""
    with urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        while chunk := answer.read1(_CHUNK_BYTES):
            content += chunk
            if len(content) > MAX_BYTES:
                raise _unavailable(shown, f"it has more than {MAX_BYTES:,} bytes")
            if elapsed_ms() > end_ms:
                raise _unavailable(shown, f"it takes longer than {PATIENCE_SECONDS} s")
    return content


def _unavailable(shown: str, text: str) -> MQError:
    """Return an MQRC_CCDT_URL_ERROR about a URL, which is shown without its password."""
    return mq_error(rc.MQRC_CCDT_URL_ERROR, f"MQCCDTURL {shown!r}: {text}")
