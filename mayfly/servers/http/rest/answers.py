"""Answers as IBM's server sends them."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from starlette.types import Send

JSON_TYPE = b"application/json;charset=utf-8"
_ENCODER = json.JSONEncoder(ensure_ascii=False)


class Answer(NamedTuple):
    """Status, headers and body; an answer without a body has no content type."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    content_type: bytes = b""

    async def send(self, send: Send) -> None:
        """Send it."""
        headers = list(self.headers)
        if self.content_type:
            headers.append((b"content-type", self.content_type))
        if self.status != 204:
            headers.append((b"content-length", str(len(self.body)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def json_answer(
    content: object, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Answer:
    """Return an answer with JSON in UTF-8."""
    return Answer(status, headers, _text(content), JSON_TYPE)


def _text(content: Any) -> bytes:
    return _ENCODER.encode(content).encode("utf-8", "replace")
