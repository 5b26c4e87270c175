"""When a channel that has failed tries again: first a few short waits, then long ones."""

from __future__ import annotations

from mayfly.engine.face.transit import ChannelDefinition
from mayfly.lifetime.times import ms_of_seconds


class Retries:
    """Counts the retries of a sender since its last success."""

    def __init__(self, definition: ChannelDefinition) -> None:
        """Begin with all of SHORTRTY and LONGRTY."""
        self.renew(definition)

    def renew(self, definition: ChannelDefinition) -> None:
        """Begin anew: the channel has succeeded, or was started."""
        self._definition = definition
        self.short_left = definition.shortrty
        self.long_left = definition.longrty

    def next_wait_ms(self) -> int | None:
        """Return how long to wait before the next one; None when there is none left."""
        if self.short_left:
            self.short_left -= 1
            return ms_of_seconds(self._definition.shorttmr)
        if self.long_left:
            self.long_left -= 1
            return ms_of_seconds(self._definition.longtmr)
        return None
