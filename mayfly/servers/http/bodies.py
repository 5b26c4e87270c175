"""The body of a request, read up to a limit and for a time; the JSON object in it, strictly."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from mayfly.servers.budget import OWN_BYTES, Room
from mayfly.servers.http.line import line_of
from mayfly.servers.http.problems import wrong_request

MOST_BYTES: Final = 65_536
_TYPE: Final = "application/json"


async def read_object(request: Request) -> dict[str, Any]:
    """Return the JSON object in a body.

    Raises HTTPException. It is 415 for another media type, so that forms of other sites are
    refused; 413 for more than 64 KiB; 400 for a body that is no JSON object.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != _TYPE:
        said = f"Content-Type is {given or 'missing'!r}; it has to be {_TYPE}"
        raise wrong_request(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, said)
    body = await read_body(request, MOST_BYTES)
    try:
        text = body.decode()
        found = json.loads(text)
        if "\\u" in text:
            # Half a surrogate pair is a character that nothing can be written in.
            json.dumps(found, ensure_ascii=False).encode()
    # Objects in objects, ten thousand deep, are no JSON that anybody means.
    except (ValueError, RecursionError) as error:
        said = f"the body is no JSON: {error}"
        raise wrong_request(HTTPStatus.BAD_REQUEST, said) from error
    if not isinstance(found, dict):
        raise wrong_request(HTTPStatus.BAD_REQUEST, "the body is no JSON object")
    return found


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Return the body of a request.

    Raises HTTPException (413) for more bytes, before they come if their number is known. Raises
    ClientDisconnect, also for a client that sends too slowly (``protocol``).
    """
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > most_bytes:
        raise _too_long(most_bytes)
    body = bytearray()
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > most_bytes:
            raise _too_long(most_bytes)
        if not message.get("more_body", False):
            return bytes(body)


async def room_for_body(request: Request, most_bytes: int) -> Room | None:
    """Return room for the message in a body, to be ended when it is put; None where none is needed.

    A body whose length is not told has room for the longest one. Raises MQRC_RESOURCE_PROBLEM when
    there is no room for a long one in time.
    """
    told = request.headers.get("content-length", "")
    if told.isdecimal():
        count = int(told)
    else:
        count = most_bytes if "transfer-encoding" in request.headers else 0
    if not OWN_BYTES < count <= most_bytes:
        # Short, or refused before it is read.
        return None
    return await line_of(request).room(count)


def _too_long(most_bytes: int) -> HTTPException:
    said = f"the body has more than {most_bytes} bytes"
    return wrong_request(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said)
