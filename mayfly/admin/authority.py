"""Authority records, and what somebody may do to an object, as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayfly.admin.model import ENTAUTH, Record
from mayfly.engine import Engine
from mayfly.engine.face.administration import (
    AUTHREC,
    PRINCIPAL,
    AuthorityKey,
    Entity,
    entities_of,
    granted,
    is_generic_profile,
    profile_pattern,
    spelled_authorities,
    view_authority,
)
from mayfly.verbs.facts import Value

#: How a profile that is asked for is compared: which stand for it, also with the groups of users,
#: or the one of exactly that name.
MATCHES: Final = ("PROFILE", "MEMBERSHIP", "EXACT")


def inquire(
    manager: Engine,
    entities: Sequence[Entity],
    *,
    profile: str | None = None,
    object_type: str | None = None,
    match: str = MATCHES[0],
) -> list[Record]:
    """Return the records of some users and groups, of all without any; by type and profile."""
    wanted = list(entities)
    if match == "MEMBERSHIP":
        wanted += entities_of(manager, [e for e in entities if e.kind == PRINCIPAL])
    return [
        _record(key, bits)
        for key, bits in view_authority(manager)
        if (object_type is None or key.object_type == object_type)
        and (profile is None or _names(key.profile, profile, match))
        and (not wanted or key.entity in wanted)
    ]


def inquire_entity(manager: Engine, entity: Entity, object_type: str, name: str) -> Record:
    """Return all that a user or group may do to an object, whichever records give it."""
    bits = granted(manager, entities_of(manager, [entity]), object_type, name)
    values: dict[str, Value] = {
        "OBJNAME": name,
        "ENTITY": entity.name,
        "ENTTYPE": entity.kind,
        "OBJTYPE": object_type,
        "AUTHLIST": spelled_authorities(bits),
    }
    return Record(ENTAUTH, name, values)


def _record(key: AuthorityKey, bits: int) -> Record:
    values: dict[str, Value] = {
        "PROFILE": key.profile,
        "ENTITY": key.entity.name,
        "ENTTYPE": key.entity.kind,
        "OBJTYPE": key.object_type,
        "AUTHLIST": spelled_authorities(bits),
    }
    return Record(AUTHREC, key.profile, values)


def _names(profile: str, wanted: str, match: str) -> bool:
    """Return whether a profile is the one asked for or, unless EXACT, stands for that name."""
    if profile == wanted:
        return True
    if match == "EXACT" or is_generic_profile(wanted):
        return False
    return bool(profile_pattern(profile).fullmatch(wanted))
