"""A connection that records its verbs; programs get it once telemetry is switched on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.trace import SpanContext

from mayfly.connection import Connection, Delivery, GetResult, Message, Opened, PutResult
from mayfly.connection.values import Property
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.properties.folders import parts_of
from mayfly.telemetry import conventions as names
from mayfly.telemetry.carrying import Content, span_context, with_context
from mayfly.telemetry.messages import shown
from mayfly.telemetry.recording import Recorder, Running, Target, destination_of

_BROWSES = c.MQGMO_BROWSE_FIRST | c.MQGMO_BROWSE_NEXT | c.MQGMO_BROWSE_MSG_UNDER_CURSOR
_IN_UNIT = c.MQGMO_SYNCPOINT | c.MQGMO_SYNCPOINT_IF_PERSISTENT
#: A message that its context has made too long goes without.
TOO_BIG = frozenset({rc.MQRC_MSG_TOO_BIG_FOR_Q, rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR})
_DYNAMIC = frozenset({c.MQQDT_TEMPORARY_DYNAMIC, c.MQQDT_PERMANENT_DYNAMIC})


class Observed:
    """The open objects, the unit of work and the recorder that the verbs of a connection share."""

    def __init__(self, recorder: Recorder, manager: str, *, shows_contexts: bool) -> None:
        """Begin with nothing open.

        With ``shows_contexts`` a program finds the context of a message among its properties.
        """
        self.recorder, self.manager = recorder, manager
        self._shows_contexts = shows_contexts
        self._targets: dict[int, Target] = {}
        self._topics: set[int] = set()
        #: So many messages the unit of work has got.
        self.unit_count = 0
        #: The message that was got last, and its creation context: that of a listener at work.
        self.last: tuple[Message, SpanContext | None] | None = None
        #: Where deliveries came from that are not settled, and the contexts of their messages.
        self.held: dict[int, tuple[str, SpanContext | None]] = {}

    def opened(self, found: Opened, name: str) -> None:
        """Note an object that was opened by a name."""
        is_topic = found.kind == c.MQOT_TOPIC
        destination = found.topic if is_topic else found.made or name or found.queue
        is_temporary = found.definition_type in _DYNAMIC
        self._targets[found.handle] = Target(destination, self.manager, is_temporary)
        if is_topic:
            self._topics.add(found.handle)

    def closed(self, handle: int) -> None:
        """Note that an object is not open any more."""
        self._targets.pop(handle, None)
        self._topics.discard(handle)

    def target(self, handle: int) -> Target:
        """Return what a handle is open for; one of a subscription has no name."""
        return self._targets.get(handle) or Target("", self.manager)

    def begin_put(self, handle: int) -> Running:
        """Begin a put or a publication."""
        operation = names.PUBLISH if handle in self._topics else names.PUT
        return self.recorder.begin(operation, self.target(handle))

    def begin_get(self, handle: int, options: int) -> Running:
        """Begin a get or a browse."""
        operation = names.BROWSE if options & _BROWSES else names.GET
        return self.recorder.begin(operation, self.target(handle))

    def end_get(self, running: Running, result: GetResult, options: int) -> GetResult:
        """End a get that has found a message; return its result as the program sees it."""
        result, creation = shown(result, as_it_is=self._shows_contexts)
        running.got(result.message, creation, result.data_length)
        self._note_got(running.target, result, creation, options)
        running.end()
        return result

    def one_of_many(self, running: Running, message: Message, options: int) -> Message:
        """Note one of the messages that a get has found; return it as the program sees it."""
        result = GetResult(message, rc.MQRC_NONE, len(message.body))
        result, creation = shown(result, as_it_is=self._shows_contexts)
        if creation is not None:
            running.span.add_link(creation)
        self._note_got(running.target, result, creation, options)
        return result.message

    def end_delivery(self, running: Running, delivery: Delivery, options: int) -> Delivery:
        """End a get that has found a message, which the connection may hold."""
        delivery, creation = self.shown(delivery)
        running.got(delivery.result.message, creation, delivery.result.data_length)
        self.note_delivery(delivery, creation, options)
        running.end()
        return delivery

    def shown(self, delivery: Delivery) -> tuple[Delivery, SpanContext | None]:
        """Return a delivery as its program sees it, and the creation context of its message."""
        result, creation = shown(delivery.result, as_it_is=self._shows_contexts)
        return delivery._replace(result=result), creation

    def note_delivery(self, delivery: Delivery, creation: SpanContext | None, options: int) -> None:
        """Note a message that was delivered."""
        if delivery.number:
            self.held[delivery.number] = destination_of(delivery.result.message), creation
        self._note_got(self.target(delivery.handle), delivery.result, creation, options)

    def _note_got(
        self, target: Target, result: GetResult, creation: SpanContext | None, options: int
    ) -> None:
        """Note a message that was got; one that is only looked at, or stays, is not."""
        if options & _BROWSES or result.stays:
            return
        if options & _IN_UNIT:
            self.unit_count += 1
        self.last = result.message, creation
        self.recorder.consume(names.GET, target)


class Put:
    """A put under way, and the forms in which its message is tried."""

    def __init__(
        self, running: Running, content: Content, properties: Sequence[Property] = ()
    ) -> None:
        """Take what the program gives."""
        self.running, self.given = running, content
        own = span_context(_properties_of(content, properties))
        carrying = None
        if own is not None:
            running.span.add_link(own)
        else:
            carrying = with_context(content, running.context)
        #: The message with its context, or as it is.
        self.content = carrying or content

    def may_try_again(self, error: MQError) -> bool:
        """Return True when the message, which was refused, may yet go without its context."""
        if self.content is not self.given and error.reason in TOO_BIG:
            self.content = self.given
            return True
        return False

    def end(self, result: PutResult | None) -> PutResult | None:
        """End it: the message was put."""
        self.running.put(result, len(self.given.body))
        return result


class TracedConnection:
    """A connection, as ``interface.Connection``, whose verbs are recorded; others are its own."""

    def __init__(self, made: Connection, observed: Observed, asynchronous: object) -> None:
        """Take the connection that does the work."""
        self._made, self.observed = made, observed
        self.asynchronous, self.held = asynchronous, TracedHeld(made, observed)
        self.many = TracedMany(made, observed)

    def __getattr__(self, name: str) -> Any:
        """Return what is not recorded."""
        return getattr(self._made, name)

    def open(self, name: str, options: int, **given: Any) -> Opened:
        """MQOPEN."""
        opened = self._made.open(name, options, **given)
        self.observed.opened(opened, name)
        return opened

    def close_object(self, handle: int, options: int = c.MQCO_NONE) -> int:
        """MQCLOSE."""
        reason = self._made.close_object(handle, options)
        self.observed.closed(handle)
        return reason

    def put(
        self,
        handle: int,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        *,
        properties: Sequence[Property] = (),
        **given: Any,
    ) -> PutResult | None:
        """MQPUT."""
        running = self.observed.begin_put(handle)
        put = Put(running, Content(descriptor, body), properties)
        while True:
            content = put.content
            try:
                return put.end(
                    self._made.put(
                        handle,
                        content.body,
                        content.descriptor,
                        options,
                        properties=properties,
                        **given,
                    )
                )
            except MQError as error:
                if not put.may_try_again(error):
                    running.fail(error)
                    raise

    def put1(
        self,
        name: str,
        body: bytes,
        descriptor: Descriptor,
        options: int = c.MQPMO_NONE,
        **given: Any,
    ) -> PutResult:
        """MQPUT1."""
        is_topic = given.get("kind", c.MQOT_Q) == c.MQOT_TOPIC
        target = Target(given.get("topic", "") or name, self.observed.manager)
        operation = names.PUBLISH if is_topic else names.PUT
        running = self.observed.recorder.begin(operation, target)
        put = Put(running, Content(descriptor, body))
        while True:
            content = put.content
            try:
                result = self._made.put1(name, content.body, content.descriptor, options, **given)
            except MQError as error:
                if not put.may_try_again(error):
                    running.fail(error)
                    raise
            else:
                put.end(result)
                return result

    def get(self, handle: int, options: int = c.MQGMO_NONE, **given: Any) -> GetResult:
        """MQGET."""
        running = self.observed.begin_get(handle, options)
        try:
            result = self._made.get(handle, options, **given)
        except NoMessage:
            # The span never ends: a program that polls would be recorded for its polling.
            raise
        except BaseException as error:
            running.fail(error)
            raise
        return self.observed.end_get(running, result, options)

    def commit(self) -> None:
        """MQCMIT."""
        self._end_unit(names.COMMIT, self._made.commit)

    def backout(self) -> None:
        """MQBACK."""
        self._end_unit(names.BACKOUT, self._made.backout)

    def _end_unit(self, operation: names.Operation, verb: Any) -> None:
        """End a unit of work; a span says so when messages were got in it."""
        observed = self.observed
        count, observed.unit_count = observed.unit_count, 0
        if not count:
            verb()
            return
        running = observed.recorder.begin(operation, Target("", observed.manager))
        running.say({names.BATCH_COUNT: count})
        try:
            verb()
        except BaseException as error:
            running.fail(error)
            raise
        running.end()


class TracedHeld:
    """Gets of deliveries, as ``onward.Held``, recorded."""

    def __init__(self, made: Connection, observed: Observed) -> None:
        """Take the connection that does the work."""
        self._made, self._observed = made, observed

    def get(
        self, handle: int, options: int = c.MQGMO_NONE, *, wait_ms: int = c.MQWI_UNLIMITED
    ) -> Delivery:
        """MQGET of a message that is held until it is settled."""
        running = self._observed.begin_get(handle, options)
        try:
            delivery = self._made.held.get(handle, options, wait_ms=wait_ms)
        except NoMessage:
            raise
        except BaseException as error:
            running.fail(error)
            raise
        return self._observed.end_delivery(running, delivery, options)

    def take(self, handle: int, options: int, most: int, most_bytes: int) -> list[Delivery]:
        """MQGET of the messages that are there: one span, with a link for each of them."""
        running = self._observed.begin_get(handle, options)
        try:
            found = self._made.held.take(handle, options, most, most_bytes)
        except BaseException as error:
            running.fail(error)
            raise
        if not found:
            return found
        if len(found) == 1 and most == 1:
            return [self._observed.end_delivery(running, found[0], options)]
        told = []
        for delivery, creation in map(self._observed.shown, found):
            if creation is not None:
                running.span.add_link(creation)
            self._observed.note_delivery(delivery, creation, options)
            told.append(delivery)
        running.say({names.BATCH_COUNT: len(told)})
        running.end()
        return told


class TracedMany:
    """Gets of many messages, as ``onward.Many``, recorded."""

    def __init__(self, made: Connection, observed: Observed) -> None:
        """Take the connection that does the work."""
        self._made, self._observed = made, observed

    def get(self, handle: int, options: int, most: int, most_bytes: int) -> list[Message]:
        """MQGET of the messages that are there: one span, with a link for each of them."""
        running = self._observed.begin_get(handle, options)
        try:
            found = self._made.many.get(handle, options, most, most_bytes)
        except BaseException as error:
            running.fail(error)
            raise
        if not found:
            return found
        told = [self._observed.one_of_many(running, message, options) for message in found]
        running.say({names.BATCH_COUNT: len(told)})
        running.end()
        return told


def _properties_of(content: Content, properties: Sequence[Property]) -> list[Property]:
    try:
        return [*parts_of(*content).properties, *properties]
    except MQError:
        return list(properties)
