"""The producer of the classic API."""

from __future__ import annotations

from functools import partial

from mayfly.jms.async_sending import CompletionListener
from mayfly.jms.destinations import Destination, Queue, Topic
from mayfly.jms.errors import IllegalStateException, InvalidDestinationException, classic, refuse
from mayfly.jms.lifetimes import begins_every_life_at_the_put
from mayfly.jms.roles import OwningSession
from mayfly.jms.sending import destination_to_use, send
from mayfly.jms.settings import Settings, ShowsSettings
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQOO_OUTPUT, MQOT_Q
from mayfly.verbs import requests as ask
from mayfly.verbs.requests import Opened
from mayfly.verbs.topic_strings import check_topic_string


class MessageProducer(ShowsSettings):
    """Sends messages to its destination, or, made without one, to that given with each send.

    Errors are JMSException. A setter that raises changes nothing.
    """

    @classic
    def __init__(self, session: OwningSession, destination: Destination | None) -> None:
        """Open the destination; sessions make producers.

        Raises InvalidDestinationException for a queue that is not known, or wildcards in a topic.
        """
        self._session = session
        self._settings = Settings()
        self._destination: Queue | Topic | None = None
        self._opened: Opened | None = None
        self._is_open = True
        if destination is not None:
            self._destination = target = destination_to_use(destination)
            if isinstance(target, Topic):
                check_topic_string(target.topic_name, wildcards=False)
            else:
                self._opened = session.mq.call(
                    ask.Open(target.queue_name, MQOO_OUTPUT, manager=target.queue_manager)
                )

    @property
    def destination(self) -> Destination | None:
        """The queue or topic it sends to, None when each send names it."""
        return self._destination

    def set_delivery_mode(self, delivery_mode: int) -> None:
        """Set PERSISTENT or NON_PERSISTENT; raises MQRC_PERSISTENCE_ERROR."""
        self._check_open()
        self._settings.set_delivery_mode(delivery_mode)

    def set_priority(self, priority: int) -> None:
        """Set 0 .. 9; raises MQRC_PRIORITY_ERROR."""
        self._check_open()
        self._settings.set_priority(priority)

    @classic
    def set_time_to_live(self, time_to_live_ms: int) -> None:
        """Set the life in ms, 0 for ever; raises MQRC_EXPIRY_ERROR, also below the delay (D7)."""
        self._check_open()
        self._settings.set_time_to_live(time_to_live_ms, self._is_paired)

    @classic
    def set_delivery_delay(self, delay_ms: int) -> None:
        """Set how long messages are held back, in ms.

        Raises MQRC_FUNCTION_NOT_SUPPORTED on a queue manager that knows no delay (D5),
        MQRC_EXPIRY_ERROR when it is longer than the life (D7), MQRC_OPTIONS_ERROR when absurd.
        """
        self._check_open()
        self._settings.set_delay(self._session.mq, delay_ms, self._is_paired)

    def set_disable_message_id(self, value: bool) -> None:
        """Ask that no message id be shown."""
        self._check_open()
        self._settings.disables_id = value

    def set_disable_message_timestamp(self, value: bool) -> None:
        """Ask that no timestamp be carried."""
        self._check_open()
        self._settings.disables_timestamp = value

    @classic
    def send(
        self, *what: object, completion_listener: CompletionListener | None = None, **terms: int
    ) -> None:
        """Send ``[destination,] message [, delivery_mode, priority, time_to_live]``.

        The destination stands there exactly when the producer was made without one. The last three
        may be given by name and are those of the producer when left out; time to live and delay are
        checked together again (D7). Raises JMSException with the reason of the failed put; a
        completion listener is told instead, on another thread.
        """
        self._check_open()
        destination, message, settings = self._arguments(what, terms)
        put = partial(send, self._session, destination, message, settings, self._opened)
        if completion_listener is None:
            put()
        else:
            self._session.completions.send(put, message, completion_listener)

    def close(self) -> None:
        """Close; a second close does nothing.

        Completion listeners are waited for; raises IllegalStateException inside of one.
        """
        completions = self._session.completions
        completions.check_not_called_back("close")
        completions.wait_until_told()
        if self._is_open:
            self._is_open = False
            if self._opened is not None:
                self._session.close_handle(self._opened.handle)

    def _arguments(
        self, what: tuple[object, ...], terms: dict[str, int]
    ) -> tuple[Queue | Topic, object, Settings]:
        destination = self._destination
        if destination is None:
            if not what or not isinstance(what[0], Destination):
                raise InvalidDestinationException(
                    "the producer has no destination: name one", rc.MQRC_UNKNOWN_OBJECT_NAME
                )
            destination, what = destination_to_use(what[0]), what[1:]
        elif what and isinstance(what[0], Destination):
            raise IllegalStateException(f"the producer sends to {destination} only")
        message, *rest = what or (None,)
        names = ("delivery_mode", "priority", "time_to_live")
        given = {**dict(zip(names, rest, strict=False)), **terms}
        is_twice = len(given) < len(rest) + len(terms)
        if len(rest) > len(names) or given.keys() - set(names) or is_twice:
            raise TypeError(f"send() takes a message and {', '.join(names)}")
        settings = self._settings
        if given:
            settings = settings.with_terms(given, self._is_paired)
        return destination, message, settings

    def _is_paired(self) -> bool:
        """Return False if the life may begin at the release, where it does not meet the delay."""
        mq, opened = self._session.mq, self._opened
        if opened is not None and opened.kind == MQOT_Q:
            return not mq.call(ask.AskLivesFromRelease(opened.handle))
        is_unnamed = self._destination is None
        return not is_unnamed or begins_every_life_at_the_put(mq)

    def _check_open(self) -> None:
        self._session.check_open()
        if not self._is_open:
            refuse(rc.MQRC_HOBJ_ERROR, "the producer is closed")
