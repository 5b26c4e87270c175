"""Topic strings: levels, validity, matching with wildcards; names of subscriptions to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

TOPIC_STRING_BYTES = 10_240
SEPARATOR = "/"
#: Any number of levels, none included, and exactly one level; special as whole levels only.
MANY_LEVELS, ONE_LEVEL = "#", "+"
_WILDCARDS = frozenset({MANY_LEVELS, ONE_LEVEL})


def check_topic_string(topic: str, *, wildcards: bool) -> None:
    """Raise MQRC_TOPIC_STRING_ERROR for a topic string that is not valid.

    Invalid are an empty string, more than 10,240 bytes of UTF-8, a NUL, a lone surrogate, and a
    wildcard level unless ``wildcards`` are allowed.
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
    """Return the levels of a topic string: ``a//b`` -> ``("a", "", "b")``."""
    return tuple(topic.split(SEPARATOR))


def has_wildcards(topic: str) -> bool:
    """Return True if a whole level is ``#`` or ``+``; ``a/b#`` has no wildcard."""
    return not _WILDCARDS.isdisjoint(levels_of(topic))


def full_topic_string(first: str, second: str) -> str:
    """Return two topic strings joined by one slash: ``a/`` and ``/b`` -> ``a/b``.

    MQOPEN and MQSUB join the string of a topic object with that of the caller. If one is empty, the
    other is returned unchanged.
    """
    if not first or not second:
        return first or second
    return first.removesuffix(SEPARATOR) + SEPARATOR + second.removeprefix(SEPARATOR)


def ancestry(topic: str) -> Iterator[str]:
    """Yield a topic string, then its parents, and at last the root, which is empty.

    Example: ``a/b`` -> ``a/b``, ``a``, and the empty string.
    """
    yield topic
    while topic:
        topic = topic.rpartition(SEPARATOR)[0]
        yield topic


def matches(pattern: Sequence[str], levels: Sequence[str]) -> bool:
    """Return True if the levels of a topic match ``pattern``, the levels of a subscription.

    ``#`` matches any number of levels, also none, and ``+`` exactly one.
    """
    # The places in the pattern that the levels read so far can have reached.
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
    """Return indexes in a pattern, with those to reach from them by skipping ``#`` levels."""
    found = set(places)
    for place in places:
        behind = place
        while behind < len(pattern) and pattern[behind] == MANY_LEVELS:
            behind += 1
            found.add(behind)
    return found


#: The id is one of 24 bytes, as messages have; other topics below TEMP are anybody's.
_TEMPORARY: Final = re.compile(r"TEMP/[0-9A-F]{48}")
#: Characters of a client id that separate the parts of a subscription's name.
_QUOTED: Final = str.maketrans({"%": "%25", ":": "%3A"})


def quoted_client_id(client_id: str) -> str:
    """Return a client id escaped for use in a subscription name: ``a:b`` -> ``a%3Ab``.

    ``:`` separates the parts of such a name. So no two clients get the same name: ``a`` with
    ``b:c`` differs from ``a:b`` with ``c``.
    """
    return client_id.translate(_QUOTED)


def is_temporary_topic(name: str) -> bool:
    """Return True if a topic string has the form of ``MakeTemporaryTopic``.

    The form is ``TEMP/`` and 48 hexadecimal digits.
    """
    return _TEMPORARY.fullmatch(name) is not None
