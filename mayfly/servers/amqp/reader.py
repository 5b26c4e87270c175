"""The messages of one link on their way in: what they have alike is read once.

Most messages of a client have the same sections before their body. Their puts differ in the data
alone then, and such a message takes a tenth of the time.
"""

from __future__ import annotations

from mayfly.servers.amqp import codec
from mayfly.servers.amqp.incoming import Fields, Incoming, fields_of, incoming


class Reader:
    """Reads the messages of one link."""

    def __init__(self) -> None:
        """Begin with no message to compare others with."""
        self._front = b""
        self._is_text = False
        #: The last message; None when those with the same front may be put differently.
        self._last: Incoming | None = None

    def read(self, raw: bytes, now_ms: int) -> Incoming:
        """Return a message as it is put at ``now_ms``; raises as ``incoming.incoming``."""
        last = self._last
        if last is not None and raw.startswith(self._front):
            body = codec.body_behind(raw, len(self._front), is_text=self._is_text)
            if body is not None:
                return last._replace(body=body)
        fields = fields_of(codec.decoded(raw))
        message = incoming(fields, now_ms)
        self._last = None
        if fields.is_timeless:
            self._remember(raw, fields, message)
        return message

    def _remember(self, raw: bytes, fields: Fields, message: Incoming) -> None:
        if len(fields.body) != 1 or len(message.body) > codec.LONGEST_KNOWN_BYTES:
            return
        is_text = fields.body[0].code == codec.VALUE
        front_bytes = len(raw) - len(message.body)
        front_bytes -= len(codec.body_front(len(message.body), is_text=is_text))
        if front_bytes >= 0 and message.body == codec.body_behind(
            raw, front_bytes, is_text=is_text
        ):
            self._front, self._is_text, self._last = raw[:front_bytes], is_text, message
