"""Authority records: the rights of users and groups by profile, and the groups of users."""

from __future__ import annotations

import logging
import re
from bisect import insort
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from mayfly.engine.attributes import AUTHREC, AuthorityDefinition
from mayfly.engine.authority.words import BITS, spelled
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import StoreError, mq_error

#: The profile of the queue manager itself.
SELF: Final = "SELF"
CLASS_PROFILE: Final = "@class"
_PROFILE = re.compile(r"[A-Za-z0-9./_%*?]{1,48}")
_MANY = "**"
#: How unspecific one piece of a profile is; the end matches no more characters.
_LITERAL, _END, _ONE, _SOME, _MANY_RANK = range(5)
_RANKS = {"?": _ONE, "*": _SOME, _MANY: _MANY_RANK}
_PIECE = re.compile(r"\*\*|.")
_LOG = logging.getLogger("mayfly.authority")
#: The group whose members may do everything, as in IBM MQ; the user of this name may, too.
ADMINISTRATORS: Final = "mqm"
#: The length of a user name in a message descriptor; characters beyond it are ignored.
USER_CHARACTERS: Final = 12
PRINCIPAL: Final = "PRINCIPAL"
GROUP: Final = "GROUP"
#: The group of everybody.
NOBODY: Final = "nobody"


def check_profile(profile: str) -> None:
    """Raise MQRC_OBJECT_NAME_ERROR unless a profile is an object name or a generic name.

    A generic name has ``?``, ``*`` or ``**``; ``**`` may occur once, as a complete qualifier. Also
    allowed is ``@class``, for the authority to make objects of a type; no object has that name.
    """
    if profile == CLASS_PROFILE:
        return
    if not _PROFILE.fullmatch(profile):
        raise mq_error(
            rc.MQRC_OBJECT_NAME_ERROR,
            f"profile {profile!r} is not 1 to 48 characters of A-Z a-z 0-9 . / _ % * ?",
        )
    qualifiers = profile.split(".")
    if any(_MANY in q and q != _MANY for q in qualifiers) or qualifiers.count(_MANY) > 1:
        raise mq_error(
            rc.MQRC_OBJECT_NAME_ERROR, f"profile {profile!r}: ** stands once, for whole qualifiers"
        )


def is_generic(profile: str) -> bool:
    """Return True if a profile has ``*`` or ``?``, so that it may match several names."""
    return "*" in profile or "?" in profile


@lru_cache(maxsize=4096)
def pattern_of(profile: str) -> re.Pattern[str]:
    """Return a regular expression that matches the full names that a profile covers.

    ``?`` is one character, ``*`` any characters within a qualifier, ``*`` alone one whole
    qualifier, ``**`` any number of qualifiers: ``A.**`` covers ``A`` and ``A.B.C``.
    """
    first, *rest = profile.split(".")
    if first == _MANY:
        # The period behind ``**`` belongs to what it matches.
        text = ".*" if not rest else r"(?:[^.]*\.)*" + _pattern_of_qualifier(rest.pop(0))
    else:
        text = _pattern_of_qualifier(first)
    for qualifier in rest:
        text += r"(?:\.[^.]*)*" if qualifier == _MANY else r"\." + _pattern_of_qualifier(qualifier)
    return re.compile(text, re.DOTALL)


def specificity(profile: str) -> tuple[tuple[int, ...], str]:
    """Return a sort key that puts the more specific of two profiles first.

    The first position where two profiles differ decides: a character comes before ``?``, that
    before ``*``, that before ``**``.
    """
    ranks = [_RANKS.get(piece, _LITERAL) for piece in _PIECE.findall(profile)]
    return (*ranks, _END), profile


def _pattern_of_qualifier(qualifier: str) -> str:
    """Return the regular expression for one qualifier of a profile.

    The text between two stars is found at its first place and never looked for again, so that many
    stars take no longer than the product of both lengths.
    """
    if qualifier == "*":
        return "[^.]+"
    first, *others = (
        "".join("[^.]" if character == "?" else re.escape(character) for character in between)
        for between in qualifier.split("*")
    )
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>[^.]*?{between})" for between in middle) + f"[^.]*{last}"


class FileOfUsers(Protocol):
    """The file of users of a queue manager, as far as the engine uses it."""

    def groups_of(self, user: str) -> tuple[str, ...] | None:
        """Return the groups of a user, None for a user who is not in the file.

        Raises StoreError or OSError when the file cannot be read.
        """


class UserGroups:
    """The groups of each user, from the file of users or from programs.

    For a user in the file, the file decides, as it is at that moment. For any other user the groups
    are those that a program in this process passed at the latest connection; the store keeps them.
    The engine lock guards an instance.
    """

    def __init__(self) -> None:
        """Begin without known groups; ``file`` is set later where a file of users exists."""
        self.file: FileOfUsers | None = None
        self._given: Mapping[str, tuple[str, ...]] = {}

    def of(self, user: str) -> tuple[str, ...]:
        """Return the groups of a user, empty for an unknown user."""
        found = self._in_file(user)
        return self._given.get(user, ()) if found is None else found

    def is_new(self, user: str, groups: tuple[str, ...]) -> bool:
        """Return True if the groups that a program passed for a user must be stored.

        False when they equal the groups already stored, and for a user in the file of users.
        """
        return self._given.get(user, ()) != groups and self._in_file(user) is None

    def enter(self, given: Mapping[str, tuple[str, ...]]) -> None:
        """Add or replace the groups of users in memory; an empty tuple removes a user's groups."""
        every = {**self._given, **given}
        self._given = {user: groups for user, groups in every.items() if groups}

    def _in_file(self, user: str) -> tuple[str, ...] | None:
        """Return a user's groups from the file of users, None for a user who is not in the file.

        None also without a file. When the file cannot be read, the error is logged and the result
        is empty, so that no authority is granted by mistake.
        """
        try:
            return None if self.file is None else self.file.groups_of(user)
        except (StoreError, OSError) as error:
            _LOG.error("the groups of user %r are not known: %s", user, error)
            return ()


class Entity(NamedTuple):
    """A user or a group that authority is given to: ``kind`` is PRINCIPAL or GROUP."""

    kind: str
    name: str


class RecordKey(NamedTuple):
    """The key of an authority record: object type, profile, and user or group."""

    object_type: str
    profile: str
    entity: Entity


class AuthorityRecords:
    """All authority records of a queue manager, and the groups of users.

    The engine lock guards an instance.
    """

    def __init__(self) -> None:
        """Begin without records and without known groups."""
        self._bits: dict[RecordKey, int] = {}
        self._by_profile: dict[str, set[RecordKey]] = {}
        #: By entity and type of object, the most specific profile first.
        self._sorted: dict[tuple[Entity, str], list[tuple[str, int]]] = {}
        #: The groups of each user.
        self.users = UserGroups()
        #: The user who opened the queue manager and is not checked; empty for none.
        self.opener = ""
        #: Temporary topics: topic string -> the user who has made it, who needs no record.
        self.temporary_topics: dict[str, str] = {}
        #: The number of refusals since the queue manager was opened.
        self.refused_count = 0

    def __len__(self) -> int:
        return len(self._bits)

    def has_any(self, object_type: str) -> bool:
        """Return True if any record exists for a type of object, for example ``"QMGR"``."""
        return any(key.object_type == object_type for key in self._bits)

    def bits(self, key: RecordKey) -> int | None:
        """Return the authorities of one record as bits, None when no record has this key."""
        return self._bits.get(key)

    def all(self) -> list[tuple[RecordKey, int]]:
        """Return all records with their bits, sorted by type, profile and entity."""
        return sorted(self._bits.items())

    def of_profile(self, profile: str) -> list[tuple[RecordKey, int]]:
        """Return the records of a profile with their bits, sorted by type and entity."""
        return [(key, self._bits[key]) for key in sorted(self._by_profile.get(profile, ()))]

    def enter(self, key: RecordKey, bits: int) -> None:
        """Add a record in memory, or replace the authorities of the record with this key."""
        self._take_out(key)
        self._bits[key] = bits
        self._by_profile.setdefault(key.profile, set()).add(key)
        place = self._sorted.setdefault((key.entity, key.object_type), [])
        insort(place, (key.profile, bits), key=lambda entry: specificity(entry[0]))

    def remove(self, key: RecordKey) -> None:
        """Remove the record with this key from memory; raises KeyError when no record has it."""
        self._take_out(key)
        del self._bits[key]
        self._by_profile[key.profile].remove(key)

    def entities_of(self, user: str, groups: Iterable[str] | None = None) -> list[Entity]:
        """Return the user and groups whose records apply to a user.

        They are the user, the user's groups, and the group of all users, ``nobody``. With
        ``groups`` None the user's groups are those known now.
        """
        names = self.users.of(user) if groups is None else groups
        members = [Entity(GROUP, name) for name in (*names, NOBODY)]
        return [Entity(PRINCIPAL, user), *members]

    def granted(self, entities: Iterable[Entity], object_type: str, name: str) -> int:
        """Return the authorities that users and groups have together on an object, as bits.

        Returns 0 for none. Of each user or group only the record with the most specific matching
        profile counts.
        """
        bits = 0
        for entity in entities:
            for profile, given in self._sorted.get((entity, object_type), ()):
                if pattern_of(profile).fullmatch(name):
                    bits |= given
                    break
        return bits

    def _take_out(self, key: RecordKey) -> None:
        """Remove a record from the lists sorted by profile; do nothing without such a record."""
        if key in self._bits:
            place = self._sorted[key.entity, key.object_type]
            place[:] = [entry for entry in place if entry[0] != key.profile]


def definition_of(key: RecordKey, bits: int) -> AuthorityDefinition:
    """Return an authority record in the form in which the store keeps it: as a definition."""
    kind, name = key.entity
    return AuthorityDefinition(
        AUTHREC,
        f"{key.object_type} {key.profile} {kind} {name}",
        object_type=key.object_type,
        profile=key.profile,
        entity_kind=kind,
        entity=name,
        authorities=spelled(bits),
    )


def record_of(definition: AuthorityDefinition) -> tuple[RecordKey, int]:
    """Return key and authorities (bits) of a stored record; unknown words are ignored."""
    entity = Entity(definition.entity_kind, definition.entity)
    key = RecordKey(definition.object_type, definition.profile, entity)
    return key, sum(BITS.get(word, 0) for word in definition.authorities.split(","))
