"""The producer of the classic API."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mayfly.engine.handles import Handle
from mayfly.jms.destinations import Destination, Queue
from mayfly.jms.errors import IllegalStateException, InvalidDestinationException, classic, refuse
from mayfly.jms.lifetimes import (
    check_delay,
    check_delivery_mode,
    check_pair,
    check_priority,
    check_time_to_live,
)
from mayfly.jms.sending import Settings, own_queue_name, queue_to_use, send
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQOO_OUTPUT

if TYPE_CHECKING:
    from mayfly.jms.sessions import Session


class MessageProducer:
    """Sends messages to its destination, or, made without one, to that given with each send.

    Errors are JMSException. A setter that raises changes nothing.
    """

    @classic
    def __init__(self, session: Session, destination: Destination | None) -> None:
        """Open the destination; sessions make producers.

        Raises InvalidDestinationException for a queue that is not known.
        """
        self._session = session
        self._settings = Settings()
        self._queue: Queue | None = None
        self._handle: Handle | None = None
        self._is_open = True
        if destination is not None:
            self._queue = queue_to_use(destination)
            self._handle = session.mq.open(own_queue_name(session, self._queue), MQOO_OUTPUT)

    @property
    def destination(self) -> Destination | None:
        """The queue it sends to, None when each send names it."""
        return self._queue

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

    def set_delivery_mode(self, delivery_mode: int) -> None:
        """Set PERSISTENT or NON_PERSISTENT; raises MQRC_PERSISTENCE_ERROR."""
        self._check_open()
        self._settings.delivery_mode = check_delivery_mode(delivery_mode)

    def set_priority(self, priority: int) -> None:
        """Set 0 .. 9; raises MQRC_PRIORITY_ERROR."""
        self._check_open()
        self._settings.priority = check_priority(priority)

    @classic
    def set_time_to_live(self, time_to_live_ms: int) -> None:
        """Set the life in ms, 0 for ever; raises MQRC_EXPIRY_ERROR, also below the delay (D7)."""
        self._check_open()
        time_to_live_ms = check_time_to_live(time_to_live_ms)
        self._check_pair(time_to_live_ms, self._settings.delay_ms)
        self._settings.time_to_live_ms = time_to_live_ms

    @classic
    def set_delivery_delay(self, delay_ms: int) -> None:
        """Set how long messages are held back, in ms.

        Raises MQRC_FUNCTION_NOT_SUPPORTED on a queue manager that knows no delay (D5),
        MQRC_EXPIRY_ERROR when it is longer than the life (D7), MQRC_OPTIONS_ERROR when absurd.
        """
        self._check_open()
        delay_ms = check_delay(self._session.manager, delay_ms)
        self._check_pair(self._settings.time_to_live_ms, delay_ms)
        self._settings.delay_ms = delay_ms

    def set_disable_message_id(self, value: bool) -> None:
        """Ask that no message id be shown."""
        self._check_open()
        self._settings.disables_id = value

    def set_disable_message_timestamp(self, value: bool) -> None:
        """Ask that no timestamp be carried."""
        self._check_open()
        self._settings.disables_timestamp = value

    @classic
    def send(self, *what: object, **terms: int) -> None:
        """Send ``[destination,] message [, delivery_mode, priority, time_to_live]``.

        The destination stands there exactly when the producer was made without one. The last three
        may be given by name and are those of the producer when left out; time to live and delay are
        checked together again (D7). Raises JMSException with the reason of the failed put.
        """
        self._check_open()
        queue, message, settings = self._arguments(what, terms)
        send(self._session, queue, message, settings, self._handle)

    def close(self) -> None:
        """Close; a second close does nothing."""
        if self._is_open:
            self._is_open = False
            if self._handle is not None:
                self._session.close_handle(self._handle)

    def _arguments(
        self, what: tuple[object, ...], terms: dict[str, int]
    ) -> tuple[Queue, object, Settings]:
        queue = self._queue
        if queue is None:
            if not what or not isinstance(what[0], Destination):
                raise InvalidDestinationException(
                    "the producer has no destination: name one", rc.MQRC_UNKNOWN_OBJECT_NAME
                )
            queue, what = queue_to_use(what[0]), what[1:]
        elif what and isinstance(what[0], Destination):
            raise IllegalStateException(f"the producer sends to {queue} only")
        message, *rest = what or (None,)
        names = ("delivery_mode", "priority", "time_to_live")
        given = {**dict(zip(names, rest, strict=False)), **terms}
        is_twice = len(given) < len(rest) + len(terms)
        if len(rest) > len(names) or given.keys() - set(names) or is_twice:
            raise TypeError(f"send() takes a message and {', '.join(names)}")
        return queue, message, self._settings_of(given)

    def _settings_of(self, given: dict[str, object]) -> Settings:
        settings = self._settings
        if not given:
            return settings
        time_to_live_ms = check_time_to_live(given.get("time_to_live", settings.time_to_live_ms))
        self._check_pair(time_to_live_ms, settings.delay_ms)
        return replace(
            settings,
            delivery_mode=check_delivery_mode(given.get("delivery_mode", settings.delivery_mode)),
            priority=check_priority(given.get("priority", settings.priority)),
            time_to_live_ms=time_to_live_ms,
        )

    def _check_pair(self, time_to_live_ms: int, delay_ms: int) -> None:
        # Where the life begins at the release, the two do not meet.
        if self._handle is None or not self._handle.path.ttl_from_release:
            check_pair(time_to_live_ms, delay_ms)

    def _check_open(self) -> None:
        self._session.check_open()
        if not self._is_open:
            refuse(rc.MQRC_HOBJ_ERROR, "the producer is closed")
