"""The settings of a producer, of either API, for the messages that it sends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mayfly.client.connection import Connection as QueueConnection
from mayfly.jms import constants as k
from mayfly.jms.lifetimes import (
    check_delay,
    check_delivery_mode,
    check_pair,
    check_priority,
    check_time_to_live,
)


@dataclass
class Settings:
    """Times in ms, ``time_to_live_ms`` 0 is for ever; a setter that raises changes nothing.

    ``is_paired`` is asked before a life shorter than the delay is refused: it is allowed where the
    life begins at the release.
    """

    delivery_mode: int = k.PERSISTENT
    priority: int = k.DEFAULT_PRIORITY
    time_to_live_ms: int = 0
    delay_ms: int = 0
    disables_id: bool = False
    disables_timestamp: bool = False

    def set_delivery_mode(self, delivery_mode: object) -> None:
        """Set PERSISTENT or NON_PERSISTENT; raises MQRC_PERSISTENCE_ERROR."""
        self.delivery_mode = check_delivery_mode(delivery_mode)

    def set_priority(self, priority: object) -> None:
        """Set 0 .. 9; raises MQRC_PRIORITY_ERROR."""
        self.priority = check_priority(priority)

    def set_time_to_live(self, time_to_live_ms: object, is_paired: Callable[[], bool]) -> None:
        """Set the life; raises MQRC_EXPIRY_ERROR, also below the delay (D7)."""
        checked_ms = check_time_to_live(time_to_live_ms)
        check_pair(checked_ms, self.delay_ms, is_paired)
        self.time_to_live_ms = checked_ms

    def set_delay(
        self, mq: QueueConnection, delay_ms: object, is_paired: Callable[[], bool]
    ) -> None:
        """Set the delay; raises MQRC_FUNCTION_NOT_SUPPORTED (D5), MQRC_EXPIRY_ERROR (D7), 2046."""
        checked_ms = check_delay(mq, delay_ms)
        check_pair(self.time_to_live_ms, checked_ms, is_paired)
        self.delay_ms = checked_ms

    def with_terms(self, terms: Mapping[str, object], is_paired: Callable[[], bool]) -> Settings:
        """Return the settings of one send; ``terms`` are named as the setters of a producer."""
        settings = replace(self)
        settings.set_time_to_live(terms.get("time_to_live", self.time_to_live_ms), is_paired)
        settings.set_delivery_mode(terms.get("delivery_mode", self.delivery_mode))
        settings.set_priority(terms.get("priority", self.priority))
        return settings


class ShowsSettings:
    """A producer as one that can be asked for its settings."""

    _settings: Settings

    @property
    def delivery_mode(self) -> int:
        """PERSISTENT or NON_PERSISTENT."""
        return self._settings.delivery_mode

    @property
    def priority(self) -> int:
        """0 .. 9; 4 at first."""
        return self._settings.priority

    @property
    def time_to_live(self) -> int:
        """How long messages live, in ms from the send; 0 for ever."""
        return self._settings.time_to_live_ms

    @property
    def delivery_delay(self) -> int:
        """How long messages are held back, in ms from the send."""
        return self._settings.delay_ms

    @property
    def disable_message_id(self) -> bool:
        """Whether sent messages show no JMSMessageID; they have one all the same."""
        return self._settings.disables_id

    @property
    def disable_message_timestamp(self) -> bool:
        """Whether messages carry no JMSTimestamp."""
        return self._settings.disables_timestamp
