"""The JSON object in the body of a request, read strictly and up to a limit."""

from __future__ import annotations

import json
from collections.abc import Collection
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request

from mayfly.servers.http.problems import wrong_request

MOST_BYTES: Final = 65_536
_TYPE: Final = "application/json"


async def read_object(request: Request, keys: Collection[str]) -> dict[str, Any]:
    """Return the object in a body; no key but those named may be in it.

    Raises HTTPException. It is 415 for another media type, so that forms of other sites are
    refused; 413 for more than 64 KiB; 400 for a body that is no JSON object, or has an unknown key.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != _TYPE:
        said = f"Content-Type is {given or 'missing'!r}; it has to be {_TYPE}"
        raise wrong_request(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, said)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            said = f"the body has more than {MOST_BYTES} bytes"
            raise wrong_request(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said)
    try:
        found = json.loads(body)
    # Objects in objects, ten thousand deep, are no JSON that anybody means.
    except (ValueError, RecursionError) as error:
        said = f"the body is no JSON: {error}"
        raise wrong_request(HTTPStatus.BAD_REQUEST, said) from error
    if not isinstance(found, dict):
        raise wrong_request(HTTPStatus.BAD_REQUEST, "the body is no JSON object")
    for key in found:
        if key not in keys:
            said = f"{key!r} is none of {', '.join(keys)}"
            raise wrong_request(HTTPStatus.BAD_REQUEST, said)
    return found


def whole_number(found: dict[str, Any], key: str) -> int:
    """Return a whole number of an object; raises HTTPException (400) naming the key."""
    value = found.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        said = f"{key} is {'missing' if key not in found else repr(value)}: it is a whole number"
        raise wrong_request(HTTPStatus.BAD_REQUEST, said)
    return value
