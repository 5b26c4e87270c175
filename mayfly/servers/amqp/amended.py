"""Annotations that clients have added to messages which they gave back: outcome *modified*.

A message that is given back stays as it is stored, so the server keeps them, until it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from proton import Data

from mayfly.servers.amqp import codec
from mayfly.servers.amqp.codec import Value

_MOST_MESSAGES: Final = 10_000
#: Annotations beyond these bounds are forgotten: a client may not fill the server's memory.
_MOST_BYTES: Final = 4_096
_MOST_NAMES: Final = 64
_NONE: Final[Mapping[Value, Value]] = {}


class Amended:
    """Annotations by queue manager and MsgId; those added longest ago go first."""

    def __init__(self) -> None:
        """Begin with none."""
        self._added: dict[tuple[str, bytes], dict[Value, Value]] = {}

    def add(self, manager: str, msg_id: bytes, annotations: Mapping[Any, Any]) -> None:
        """Combine annotations with those that the message has had added before."""
        data = Data()
        data.put_object(dict(annotations))
        raw = data.encode()
        if not annotations or len(raw) > _MOST_BYTES:
            return
        added = codec.decoded_value(raw)
        assert isinstance(added, dict)
        key = manager, msg_id
        combined = self._added.get(key, {}) | added
        if len(combined) > _MOST_NAMES:
            return
        self._added.pop(key, None)
        if len(self._added) >= _MOST_MESSAGES:
            del self._added[next(iter(self._added))]
        self._added[key] = combined

    def of(self, manager: str, msg_id: bytes) -> Mapping[Value, Value]:
        """Return what was added to a message."""
        return self._added.get((manager, msg_id), _NONE) if self._added else _NONE
