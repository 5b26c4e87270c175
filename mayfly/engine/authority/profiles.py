"""Profiles: the name of an object, or a generic name, and which of several says most of one."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

#: The profile of the queue manager itself.
SELF: Final = "SELF"
_PROFILE = re.compile(r"[A-Za-z0-9./_%*?]{1,48}")
_MANY = "**"
#: How little the piece at one place says; an end stands for no more characters.
_LITERAL, _END, _ONE, _SOME, _MANY_RANK = range(5)
_RANKS = {"?": _ONE, "*": _SOME, _MANY: _MANY_RANK}
_PIECE = re.compile(r"\*\*|.")


def check_profile(profile: str) -> None:
    """Raise MQRC_OBJECT_NAME_ERROR for what is neither a name nor a generic one.

    ``**`` stands once, between periods or at an end: it is whole qualifiers.
    """
    if not _PROFILE.fullmatch(profile):
        said = f"profile {profile!r} is not 1 to 48 characters of A-Z a-z 0-9 . / _ % * ?"
        raise mq_error(rc.MQRC_OBJECT_NAME_ERROR, said)
    qualifiers = profile.split(".")
    if any(_MANY in q and q != _MANY for q in qualifiers) or qualifiers.count(_MANY) > 1:
        said = f"profile {profile!r}: ** stands once, for whole qualifiers"
        raise mq_error(rc.MQRC_OBJECT_NAME_ERROR, said)


def is_generic(profile: str) -> bool:
    """Return True if a profile can stand for more than one name."""
    return "*" in profile or "?" in profile


@lru_cache(maxsize=4096)
def pattern_of(profile: str) -> re.Pattern[str]:
    """Return a pattern of the names that a profile stands for.

    ``?`` is one character and ``*`` any number of them inside a qualifier, ``*`` alone exactly one
    qualifier, ``**`` any number of qualifiers.
    """
    first, *rest = profile.split(".")
    if first == _MANY:
        # The period behind it belongs to what it stands for.
        text = ".*" if not rest else r"(?:[^.]*\.)*" + _spelled(rest.pop(0))
    else:
        text = _spelled(first)
    for qualifier in rest:
        text += r"(?:\.[^.]*)*" if qualifier == _MANY else r"\." + _spelled(qualifier)
    return re.compile(text, re.DOTALL)


def specificity(profile: str) -> tuple[tuple[int, ...], str]:
    """Return a key that sorts profiles, the one that says most of a name first.

    The first place at which two differ decides: a character says more than ``?``, that more than
    ``*``, that more than ``**``.
    """
    ranks = [_RANKS.get(piece, _LITERAL) for piece in _PIECE.findall(profile)]
    return (*ranks, _END), profile


def _spelled(qualifier: str) -> str:
    if qualifier == "*":
        return "[^.]+"
    pieces = {"?": "[^.]", "*": "[^.]*"}
    return "".join(pieces.get(character) or re.escape(character) for character in qualifier)
