"""The delay that a message asks for: by AMQP's own annotations, or in the words of other brokers.

Programs that were written for Azure Service Bus, ActiveMQ, Artemis or RabbitMQ go on asking in the
words of these. A message that asks to be late is late, or is refused: it never comes at once in
silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from proton import Data

from mayfly.mqi.reasons import MQRC_OPTIONS_ERROR
from mayfly.servers.amqp.codec import Scalar, Value, plain
from mayfly.servers.amqp.errors import AmqpError, wrong_field
from mayfly.servers.amqp.values import integer

DELIVERY_TIME, DELIVERY_DELAY = "x-opt-delivery-time", "x-opt-delivery-delay"
#: A moment in ms since 1970: of Azure Service Bus, and of Artemis.
_MOMENTS: Final = frozenset(("x-opt-scheduled-enqueue-time", "_AMQ_SCHED_DELIVERY"))
#: A delay in ms: of ActiveMQ, and of RabbitMQ's plugin.
_DELAYS: Final = frozenset(("AMQ_SCHEDULED_DELAY", "x-delay"))
#: Plans of ActiveMQ that no single delay stands for; 0 and an empty text are none.
_PLANS: Final = frozenset(("AMQ_SCHEDULED_CRON", "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT"))
_MOST_DIGITS: Final = 20
_NAMES: Final = _MOMENTS | _DELAYS | _PLANS


def says_moment(annotations: Mapping[str, Value], application: Mapping[str, Value]) -> bool:
    """Return True if the delay of a message depends on when it comes: it says a moment."""
    if not annotations and not application:
        return False
    return DELIVERY_TIME in annotations or not (
        _MOMENTS.isdisjoint(annotations) and _MOMENTS.isdisjoint(application)
    )


def delay_asked_ms(
    annotations: Mapping[str, Value],
    application: Mapping[str, Value],
    base_ms: int,
    longest_ms: int,
) -> int:
    """Return the delay that a message asks for, in ms; ``base_ms`` is the moment of its creation.

    The words of other brokers stand among the annotations or the application properties. Raises
    AmqpError amqp:invalid-field by MQRC_OPTIONS_ERROR, with the name and value of one that is no
    delay, or is longer than ``longest_ms``. It names x-opt-delivery-time, too, where that has to
    take the place of another broker's word.
    """
    own_ms = _own_delay_ms(annotations, base_ms, longest_ms)
    if _NAMES.isdisjoint(annotations) and _NAMES.isdisjoint(application):
        return own_ms
    asked = {DELIVERY_TIME if DELIVERY_TIME in annotations else DELIVERY_DELAY: own_ms}
    for place in (annotations, application):
        for name in _NAMES.intersection(place):
            found_ms = _others_delay_ms(name, place[name], base_ms)
            if asked.setdefault(name, found_ms) != found_ms:
                raise _contradiction({name: found_ms, f"its other {name}": asked[name]})
    # One that delays nothing contradicts no other: Qpid JMS sends a time with each message.
    late = {name: found_ms for name, found_ms in asked.items() if found_ms}
    if len(set(late.values())) > 1:
        raise _contradiction(late)
    name, longest_asked_ms = max(asked.items(), key=lambda each: each[1])
    if longest_asked_ms > longest_ms:
        raise _refused(f"{name}: a delay of {longest_asked_ms} ms is not within 0 .. {longest_ms}")
    return longest_asked_ms


def _own_delay_ms(annotations: Mapping[str, Value], base_ms: int, longest_ms: int) -> int:
    """Return the delay that AMQP's own annotations ask for; raises AmqpError amqp:invalid-field."""
    name, time = DELIVERY_TIME, annotations.get(DELIVERY_TIME)
    if time is not None:
        # A moment that is past delays nothing.
        delay_ms = max(0, integer(name, time, MQRC_OPTIONS_ERROR) - base_ms)
    else:
        name, given = DELIVERY_DELAY, annotations.get(DELIVERY_DELAY)
        delay_ms = 0 if given is None else integer(name, given, MQRC_OPTIONS_ERROR)
    if not 0 <= delay_ms <= longest_ms:
        said = f"{name}: a delay of {delay_ms} ms is not within 0 .. {longest_ms}"
        raise wrong_field(MQRC_OPTIONS_ERROR, said)
    return delay_ms


def _others_delay_ms(name: str, value: Value, base_ms: int) -> int:
    if name in _PLANS:
        if plain(value) not in (None, "", 0):
            raise _refused(f"{name} {plain(value)!r} is a plan, and a message is delivered once")
        return 0
    if value is None:
        return 0
    found_ms = _number(name, value)
    if name in _MOMENTS:
        return max(0, found_ms - base_ms)
    if found_ms < 0:
        raise _refused(f"{name} {found_ms} is below 0")
    return found_ms


def _number(name: str, value: Value) -> int:
    """Return a number of ms, which properties of JMS may have as text."""
    if isinstance(value, Scalar) and value.type in (Data.STRING, Data.SYMBOL):
        digits = str(value.value).strip()
        if digits.isascii() and digits.isdecimal() and len(digits) < _MOST_DIGITS:
            return int(digits)
    try:
        return integer(name, value)
    except AmqpError as error:
        raise _refused(f"{error}, and no number of ms") from None


def _contradiction(asked: Mapping[str, int]) -> AmqpError:
    told = ", ".join(f"{name} asks for {found_ms} ms" for name, found_ms in sorted(asked.items()))
    return _refused(told)


def _refused(why: str) -> AmqpError:
    said = f"{why}: say the delivery time in {DELIVERY_TIME} alone"
    return wrong_field(MQRC_OPTIONS_ERROR, said)
