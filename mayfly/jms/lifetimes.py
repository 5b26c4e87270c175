"""The rules of a producer's settings: delivery delay, time to live, priority, delivery mode."""

from __future__ import annotations

from collections.abc import Callable

from mayfly.client.connection import Connection as QueueConnection
from mayfly.jms.constants import NON_PERSISTENT, PERSISTENT
from mayfly.jms.errors import refuse
from mayfly.lifetime.window import DELAY_COMMAND_LEVEL, LATEST_DUE_MS, LONGEST_LIFE_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.store.keys import MAX_PRIORITY
from mayfly.verbs import requests as ask


def check_delay(mq: QueueConnection, delay_ms: object) -> int:
    """Return a delivery delay in ms.

    Raises MQRC_FUNCTION_NOT_SUPPORTED for a delay other than 0 on a queue manager below command
    level 800 (D5). Raises MQRC_OPTIONS_ERROR for a value that is no whole number, is negative, or
    leads beyond the year 2109.
    """
    if type(delay_ms) is not int:
        refuse(rc.MQRC_OPTIONS_ERROR, f"delivery delay {delay_ms!r} is no number of ms")
    command_level = mq.call(ask.AskCommandLevel()) if delay_ms else DELAY_COMMAND_LEVEL
    if command_level < DELAY_COMMAND_LEVEL:
        refuse(
            rc.MQRC_FUNCTION_NOT_SUPPORTED,
            f"delivery delay needs command level {DELAY_COMMAND_LEVEL}; "
            f"{mq.name} has {command_level}",
        )
    if delay_ms < 0 or mq.now_ms() + delay_ms > LATEST_DUE_MS:
        refuse(rc.MQRC_OPTIONS_ERROR, f"delivery delay {delay_ms} is negative or too long")
    return delay_ms


def check_time_to_live(time_to_live_ms: object) -> int:
    """Return a time to live in ms, 0 for ever; raises MQRC_EXPIRY_ERROR for anything else."""
    if type(time_to_live_ms) is not int or not 0 <= time_to_live_ms <= LONGEST_LIFE_MS:
        refuse(
            rc.MQRC_EXPIRY_ERROR,
            f"time to live {time_to_live_ms!r} is not within 0 .. {LONGEST_LIFE_MS} ms",
        )
    return time_to_live_ms


def check_pair(time_to_live_ms: int, delay_ms: int, is_paired: Callable[[], bool]) -> None:
    """Raise MQRC_EXPIRY_ERROR when a message would expire before its delivery time (D7).

    ``is_paired`` is called only for a pair that would be refused. It returns False where the life
    may begin at the release; such a pair is allowed.
    """
    if time_to_live_ms and delay_ms > time_to_live_ms and is_paired():
        refuse(
            rc.MQRC_EXPIRY_ERROR,
            f"time to live {time_to_live_ms} ms is less than delivery delay {delay_ms} ms",
        )


def begins_every_life_at_the_put(mq: QueueConnection) -> bool:
    """Return False if a queue has TTLFROM(RELEASE), where a life may be shorter than its delay.

    A producer that sends to any destination asks this of its settings; each send is checked for
    the destination that it names (D7).
    """
    return not mq.call(ask.AskLivesFromRelease(c.MQHO_NONE))


def check_priority(priority: object) -> int:
    """Return a priority; raises MQRC_PRIORITY_ERROR unless it is 0 .. 9."""
    if type(priority) is not int or not 0 <= priority <= MAX_PRIORITY:
        refuse(rc.MQRC_PRIORITY_ERROR, f"priority {priority!r} is not within 0 .. {MAX_PRIORITY}")
    return priority


def check_delivery_mode(delivery_mode: object) -> int:
    """Return a delivery mode; raises MQRC_PERSISTENCE_ERROR for what is none."""
    if type(delivery_mode) is not int or delivery_mode not in (NON_PERSISTENT, PERSISTENT):
        refuse(rc.MQRC_PERSISTENCE_ERROR, f"delivery mode {delivery_mode!r}")
    return delivery_mode
