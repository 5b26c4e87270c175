"""Authority records: the rights given to each user and group, and their sum for one name."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from mayfly.engine.attributes.attribute import AUTHREC
from mayfly.engine.attributes.of_authority import AuthorityDefinition
from mayfly.engine.authority.profiles import pattern_of, specificity
from mayfly.engine.authority.users import ADMINISTRATORS, UserGroups
from mayfly.engine.authority.words import BITS, spelled

PRINCIPAL: Final = "PRINCIPAL"
GROUP: Final = "GROUP"
#: The group of everybody.
NOBODY: Final = "nobody"


class Entity(NamedTuple):
    """A user or a group: ``kind`` is PRINCIPAL or GROUP."""

    kind: str
    name: str


class RecordKey(NamedTuple):
    """Which record: of an entity, for a profile and a type of object."""

    object_type: str
    profile: str
    entity: Entity


class AuthorityRecords:
    """All authority records of a queue manager, and who is in which group; guarded by the lock."""

    def __init__(self) -> None:
        """Begin with none."""
        self._bits: dict[RecordKey, int] = {}
        #: By entity and type of object, the most specific profile first.
        self._sorted: dict[tuple[Entity, str], list[tuple[str, int]]] = {}
        #: The groups of each user.
        self.users = UserGroups()
        #: The user that opened the queue manager, unchecked; the empty name is nobody.
        self.opener = ""
        #: Temporary topics: topic string -> the user who has made it, who needs no record.
        self.temporary_topics: dict[str, str] = {}
        #: How often somebody was refused since the queue manager was opened.
        self.refused_count = 0

    def __len__(self) -> int:
        """Return how many records there are."""
        return len(self._bits)

    def has_any(self, object_type: str) -> bool:
        """Return True if there is a record for a type of object."""
        return any(key.object_type == object_type for key in self._bits)

    def bits(self, key: RecordKey) -> int | None:
        """Return what one record gives, None when there is no such record."""
        return self._bits.get(key)

    def all(self) -> list[tuple[RecordKey, int]]:
        """Return all records by type, profile and entity."""
        return sorted(self._bits.items())

    def enter(self, key: RecordKey, bits: int) -> None:
        """Add a record, or change what it gives."""
        self._take_out(key)
        self._bits[key] = bits
        place = self._sorted.setdefault((key.entity, key.object_type), [])
        insort(place, (key.profile, bits), key=lambda entry: specificity(entry[0]))

    def remove(self, key: RecordKey) -> None:
        """Forget a record."""
        self._take_out(key)
        del self._bits[key]

    def may_do_everything(self, user: str, groups: Collection[str]) -> bool:
        """Return True if a user may do everything: of group mqm, or the opener."""
        is_opener = bool(user) and user == self.opener
        return is_opener or user == ADMINISTRATORS or ADMINISTRATORS in groups

    def entities_of(self, user: str, groups: Iterable[str] | None = None) -> list[Entity]:
        """Return for whom a user's authority counts: the user, all groups, the group of everybody.

        Without ``groups`` they are those that are known of the user.
        """
        names = self.users.of(user) if groups is None else groups
        members = [Entity(GROUP, name) for name in (*names, NOBODY)]
        return [Entity(PRINCIPAL, user), *members]

    def granted(self, entities: Iterable[Entity], object_type: str, name: str) -> int:
        """Return what some entities may do together, each by its most specific profile."""
        bits = 0
        for entity in entities:
            for profile, given in self._sorted.get((entity, object_type), ()):
                if pattern_of(profile).fullmatch(name):
                    bits |= given
                    break
        return bits

    def _take_out(self, key: RecordKey) -> None:
        if key in self._bits:
            place = self._sorted[key.entity, key.object_type]
            place[:] = [entry for entry in place if entry[0] != key.profile]


def definition_of(key: RecordKey, bits: int) -> AuthorityDefinition:
    """Return a record as it is stored."""
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
    """Return a record from its stored form."""
    entity = Entity(definition.entity_kind, definition.entity)
    key = RecordKey(definition.object_type, definition.profile, entity)
    return key, sum(BITS.get(word, 0) for word in definition.authorities.split(","))
