"""What a session with a served queue manager says over Arrow Flight: one call, one answer.

A session is one exchange of frames. A frame is a line of JSON and, behind it, the body of a
message, if there is one; bytes in the JSON are ``{"hex": …}``. The server begins with an answer to
the opening. A call is ``{"verb": …}`` with what the verb takes. Its answer is ``{"answer": …}``,
``{"refused": reason code, "text": …}``, or ``{"wrong": text}`` where it makes no sense. The end of
the exchange ends the session and backs out what is not committed.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

#: Both ends must speak the same; it is part of the opening.
VERSION = 2
#: The verb in the descriptor of the exchange, with an OpenRequest.
SESSION_VERB = "session"
VERB, ANSWER, REFUSED, TEXT, WRONG = "verb", "answer", "refused", "text", "wrong"
#: What is answered when a stream has no more.
END = "end"
#: A call waits no longer than this: so soon a server learns that it is to stop.
LONGEST_WAIT_MS = 1_000
_HEX = "hex"


class OpenRequest(NamedTuple):
    """Whose session it is; ``user`` and ``program`` stand in the messages put."""

    protocol: int
    user: str
    program: str
    transacted: bool


class MessageRow(NamedTuple):
    """A message that was got or browsed, without its body, which goes behind the frame.

    ``position`` tells it from all others on its queue, ``descriptor`` is packed
    (mqi/descriptor.py), and ``topic`` is None for what was put to a queue. Times are epoch ms.
    """

    queue: str
    seen_ms: int
    position: int
    put_ms: int
    deliver_at_ms: int | None
    expire_at_ms: int | None
    backout_count: int
    msg_id: bytes
    correl_id: bytes
    descriptor: bytes
    topic: str | None


def packed(value: object, body: bytes = b"") -> bytes:
    """Return a frame."""
    # JSON has no line end inside: it writes one in a text as \n.
    return json.dumps(value, default=_as_hex).encode() + b"\n" + body


def unpacked(frame: bytes) -> tuple[Any, bytes]:
    """Return value and body of a frame; raises ValueError for what is none."""
    line, _, body = frame.partition(b"\n")
    try:
        return json.loads(line, object_hook=_from_hex), body
    except TypeError as error:
        raise ValueError(f"a value of {_HEX!r} is no text: {error}") from error
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error


def _as_hex(value: object) -> dict[str, str]:
    assert isinstance(value, bytes)
    return {_HEX: value.hex()}


def _from_hex(value: dict[str, Any]) -> Any:
    return bytes.fromhex(value[_HEX]) if value.keys() == {_HEX} else value
