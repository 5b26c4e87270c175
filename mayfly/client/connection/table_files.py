"""Channel tables that MQCCDTURL, or MQCHLLIB and MQCHLTAB, name: in a file, or on a web server."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.error import HTTPError
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import Request, urlopen

from mayfly.client.connection.ccdt import ChannelTable, read_table, table_of
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.runtime.clocks import elapsed_ms

#: A web server has so long for the whole table, which has at most so many bytes.
PATIENCE_SECONDS: Final = 30
MOST_BYTES: Final = 4_194_304
_CHUNK_BYTES: Final = 65_536
#: The default of MQCHLTAB in IBM's client.
_DEFAULT_TABLE: Final = "AMQCLCHL.TAB"

#: Tables that this process has read: by their files, with time and size; by URL, with their bytes.
_of_files: dict[Path, tuple[tuple[int, int], ChannelTable]] = {}
_of_urls: dict[str, tuple[bytes, ChannelTable]] = {}


def named_table(environment: Mapping[str, str]) -> ChannelTable | None:
    """Return the table that an environment names, None when it names none.

    A file is read again when it was changed; a web server is asked each time. Raises
    MQRC_CCDT_URL_ERROR for a wrong MQCCDTURL and a web server without the table,
    MQRC_Q_MGR_NAME_ERROR when MQCHLLIB and MQCHLTAB name no file, and MQRC_CLIENT_CONN_ERROR for
    what is no table.
    """
    if url := environment.get("MQCCDTURL"):
        parts = _parts_of(url)
        if parts.scheme in ("http", "https"):
            return _on_web(url, parts)
        path = _path_of_url(url, parts)
        if not path.is_file():
            raise mq_error(rc.MQRC_CCDT_URL_ERROR, f"MQCCDTURL {url!r}: {path} is not there")
        return _in_file(path)
    folder, file = environment.get("MQCHLLIB"), environment.get("MQCHLTAB")
    if not folder and not file:
        return None
    path = Path(folder or "", file or _DEFAULT_TABLE)
    if not path.is_file():
        said = f"MQCHLLIB and MQCHLTAB name {path}, which is not there"
        raise mq_error(rc.MQRC_Q_MGR_NAME_ERROR, said)
    return _in_file(path)


def _parts_of(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        # A password may stand before the host, and in what the library says.
        said = "the host in MQCCDTURL is no name and no address"
        raise mq_error(rc.MQRC_CCDT_URL_ERROR, said) from None


def _path_of_url(url: str, parts: SplitResult) -> Path:
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path:
            said = f"MQCCDTURL {url!r} is not file:///path"
            raise mq_error(rc.MQRC_CCDT_URL_ERROR, said)
        return Path(unquote(parts.path))
    if "://" in url:
        said = f"MQCCDTURL {url!r}: {parts.scheme} is none of file, http and https"
        raise mq_error(rc.MQRC_CCDT_URL_ERROR, said)
    return Path(url)


def _in_file(path: Path) -> ChannelTable:
    try:
        state = path.stat()
        version = state.st_mtime_ns, state.st_size
        known = _of_files.get(path)
        if known is not None and known[0] == version:
            return known[1]
        table = read_table(path)
    except OSError as error:
        said = f"{path} cannot be read: {error.strerror}"
        raise mq_error(rc.MQRC_CLIENT_CONN_ERROR, said) from error
    _of_files[path] = version, table
    return table


def _on_web(url: str, parts: SplitResult) -> ChannelTable:
    # A password does not belong into errors and logs.
    shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    try:
        content = _fetched(_request(parts, shown), shown)
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
    request = Request(shown, headers={"Accept": "application/json"})
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        shown_to_server = base64.b64encode(pair.encode()).decode()
        # A server that it redirects to is not to have the password.
        request.add_unredirected_header("Authorization", f"Basic {shown_to_server}")
    return request


def _fetched(request: Request, shown: str) -> bytes:
    end_ms = elapsed_ms() + PATIENCE_SECONDS * SECOND_MS
    content = b""
    with urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        while chunk := answer.read1(_CHUNK_BYTES):
            content += chunk
            if len(content) > MOST_BYTES:
                raise _unavailable(shown, f"it has more than {MOST_BYTES:,} bytes")
            if elapsed_ms() > end_ms:
                raise _unavailable(shown, f"it takes longer than {PATIENCE_SECONDS} s")
    return content


def _unavailable(shown: str, said: str) -> MQError:
    return mq_error(rc.MQRC_CCDT_URL_ERROR, f"MQCCDTURL {shown!r}: {said}")
