"""Sets and deletes authority records; the first record turns the checks on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mayfly.engine.attributes import AUTHCHK_NONE, AUTHCHK_SEND, QMGR
from mayfly.engine.authority.records import (
    CLASS_PROFILE,
    GROUP,
    PRINCIPAL,
    SELF,
    USER_CHARACTERS,
    Entity,
    RecordKey,
    check_profile,
    definition_of,
)
from mayfly.engine.authority.words import OBJECT_TYPES, bits_of, spelled
from mayfly.engine.core import Core
from mayfly.engine.objects.administration import erase, save_together
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

_LONGEST_NAME = {PRINCIPAL: USER_CHARACTERS, GROUP: 64}


def set_authority(
    core: Core,
    object_type: str,
    profile: str,
    entities: Sequence[Entity],
    *,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
) -> None:
    """Add authorities for users or groups on the objects of a profile, and remove others.

    Missing records are created. The very first record changes AUTHCHK(NONE) to AUTHCHK(SEND). All
    are durable on return, or none is set. Raises MQRC_OPTIONS_ERROR for a word that the object type
    does not have, a word both added and removed, and an invalid user or group;
    MQRC_OBJECT_TYPE_ERROR; and MQRC_OBJECT_NAME_ERROR for an invalid profile.
    """
    core.check_running()
    keys = [RecordKey(object_type, profile, entity) for entity in entities]
    for key in keys:
        check_key(core, key)
    added, removed = bits_of(object_type, add), bits_of(object_type, remove)
    if added & removed:
        raise mq_error(
            rc.MQRC_OPTIONS_ERROR, f"{spelled(added & removed)} is both added and removed"
        )
    records, manager = core.registry.authority, core.registry.queue_manager
    with core.definitions_lock:
        bits = {key: ((records.bits(key) or 0) | added) & ~removed for key in keys}
        checks = manager.authchk
        if not records and checks == AUTHCHK_NONE:
            checks = AUTHCHK_SEND
        changed = replace(manager, authchk=checks)
        save_together(core, changed, *(definition_of(key, bits[key]) for key in keys))
        with core.engine_lock:
            for key in keys:
                records.enter(key, bits[key])
            manager.authchk = checks
            core.registry.changed()


def delete_authority(core: Core, key: RecordKey) -> None:
    """Delete one authority record; durable on return.

    Authorities from other records stay. Raises MQRC_UNKNOWN_OBJECT_NAME when no record has this
    key, and for an invalid key MQRC_OBJECT_TYPE_ERROR, MQRC_OBJECT_NAME_ERROR or
    MQRC_OPTIONS_ERROR.
    """
    core.check_running()
    check_key(core, key)
    records = core.registry.authority
    with core.definitions_lock:
        bits = records.bits(key)
        if bits is None:
            kind, name = key.entity
            raise mq_error(
                rc.MQRC_UNKNOWN_OBJECT_NAME,
                f"no record of {kind} {name} for {key.object_type} {key.profile}",
            )
        erase(core, definition_of(key, bits))
        with core.engine_lock:
            records.remove(key)
            core.registry.changed()


def check_key(core: Core, key: RecordKey) -> None:
    """Raise an MQError if no authority record can have this key.

    MQRC_OBJECT_TYPE_ERROR: unknown type of object. MQRC_OBJECT_NAME_ERROR: invalid profile, or one
    for the queue manager other than SELF. MQRC_OPTIONS_ERROR: invalid user or group name.
    """
    if key.object_type not in OBJECT_TYPES:
        raise mq_error(
            rc.MQRC_OBJECT_TYPE_ERROR,
            f"object type {key.object_type!r} is not one of {', '.join(OBJECT_TYPES)}",
        )
    if key.object_type == QMGR and key.profile not in (SELF, CLASS_PROFILE):
        raise mq_error(
            rc.MQRC_OBJECT_NAME_ERROR,
            f"the profile of queue manager {core.name} is {SELF}, not {key.profile!r}",
        )
    check_profile(key.profile)
    check_entity(key.entity)


def check_entity(entity: Entity) -> None:
    """Raise MQRC_OPTIONS_ERROR unless a user or group name is valid.

    A name must be printable and not blank; a user has up to 12 characters, a group up to 64.
    """
    kind, name = entity
    longest = _LONGEST_NAME[kind]
    if not name.strip() or not name.isprintable() or len(name) > longest:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"{kind} {name!r} is not 1 to {longest} characters")
