"""Topic strings: levels between slashes, which are valid, and what wildcards match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

TOPIC_STRING_BYTES = 10_240
SEPARATOR = "/"
#: Any number of levels, none included, and exactly one level; special as whole levels only.
MANY_LEVELS, ONE_LEVEL = "#", "+"
_WILDCARDS = frozenset({MANY_LEVELS, ONE_LEVEL})


def check_topic_string(topic: str, *, wildcards: bool) -> None:
    """Raise MQRC_TOPIC_STRING_ERROR for what no publication or subscription can name.

    That is nothing at all, more than 10,240 bytes, a NUL, what UTF-8 cannot say, and, where
    ``wildcards`` are not allowed, a level that is one.
    """
    try:
        length_bytes = len(topic.encode())
    except UnicodeEncodeError as error:
        raise mq_error(rc.MQRC_TOPIC_STRING_ERROR, f"{topic!r}: {error.reason}") from None
    if not 0 < length_bytes <= TOPIC_STRING_BYTES:
        text = f"a topic string of {length_bytes} bytes is not within 1 .. {TOPIC_STRING_BYTES}"
        raise mq_error(rc.MQRC_TOPIC_STRING_ERROR, text)
    if "\0" in topic:
        raise mq_error(rc.MQRC_TOPIC_STRING_ERROR, f"{topic!r} contains a NUL")
    if not wildcards and has_wildcards(topic):
        raise mq_error(rc.MQRC_TOPIC_STRING_ERROR, f"{topic!r} has a wildcard level")


def levels_of(topic: str) -> tuple[str, ...]:
    """Return the levels of a topic string; an empty one between two slashes counts."""
    return tuple(topic.split(SEPARATOR))


def has_wildcards(topic: str) -> bool:
    """Return True if a level is a wildcard; inside a longer level the characters are ordinary."""
    return not _WILDCARDS.isdisjoint(levels_of(topic))


def joined(first: str, second: str) -> str:
    """Return the full topic string of a topic object's string and what stands behind it."""
    if not first or not second:
        return first or second
    return first.removesuffix(SEPARATOR) + SEPARATOR + second.removeprefix(SEPARATOR)


def upwards(topic: str) -> Iterator[str]:
    """Yield a topic string, those of its parents and at last the root, which is empty."""
    yield topic
    while topic:
        topic = topic.rpartition(SEPARATOR)[0]
        yield topic


def matches(pattern: Sequence[str], levels: Sequence[str]) -> bool:
    """Return True if the levels of a topic match those of a subscription."""
    # The places in the pattern at which the levels read so far can stand.
    places = _skip({0}, pattern)
    for level in levels:
        reached = set()
        for place in places:
            if place < len(pattern):
                wanted = pattern[place]
                if wanted == MANY_LEVELS:
                    reached.add(place)
                elif wanted in (ONE_LEVEL, level):
                    reached.add(place + 1)
        places = _skip(reached, pattern)
        if not places:
            return False
    return len(pattern) in places


def _skip(places: set[int], pattern: Sequence[str]) -> set[int]:
    """Add the places behind ``#`` levels, which may stand for nothing."""
    found = set(places)
    for place in places:
        behind = place
        while behind < len(pattern) and pattern[behind] == MANY_LEVELS:
            behind += 1
            found.add(behind)
    return found
