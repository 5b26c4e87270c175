"""The MQSC commands about authority records, and about what somebody may do to an object."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from mayfly.engine.attributes.attribute import AUTHREC, QMGR, Value
from mayfly.engine.authority.changes import check_entity, delete_authority, set_authority
from mayfly.engine.authority.profiles import SELF, check_profile, is_generic, pattern_of
from mayfly.engine.authority.records import GROUP, PRINCIPAL, Entity, RecordKey
from mayfly.engine.authority.words import OBJECT_TYPES, allowed_words, spelled
from mayfly.mqi.errors import MQError
from mayfly.mqsc.display import body
from mayfly.mqsc.grammar import Command, Parameter, fold
from mayfly.mqsc.outcome import Outcome, done, not_found, nothing_else
from mayfly.mqsc.result import Message
from mayfly.mqsc.values import distinct, nearest, no_value, one_value

if TYPE_CHECKING:
    from mayfly.engine.manager import Manager

ENTAUTH: Final = "ENTAUTH"
_MATCHES: Final = ("PROFILE", "MEMBERSHIP", "EXACT")
#: What DISPLAY always shows, or may be asked for.
_SHOWN: Final = ("AUTHLIST", "ENTITY", "ENTTYPE", "OBJTYPE", "ALL")


def set_record(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """SET AUTHREC PROFILE() OBJTYPE() PRINCIPAL() | GROUP() AUTHADD() AUTHRMV()."""
    given = _given(command)
    object_type, profile = _object(queue_manager, command, given, "PROFILE")
    entities = _entities(given)
    if not entities:
        raise command.object.wrong(f"{PRINCIPAL} or {GROUP} is missing")
    if not {"AUTHADD", "AUTHRMV"} & given.keys():
        raise command.object.wrong("AUTHADD or AUTHRMV is missing")
    add = _words(given.pop("AUTHADD", None), object_type)
    remove = _words(given.pop("AUTHRMV", None), object_type)
    nothing_else(command, kind, given)
    set_authority(queue_manager, object_type, profile, entities, add=add, remove=remove)
    return done("AMQ8862I", "IBM MQ authority record set.")


def delete_record(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DELETE AUTHREC PROFILE() OBJTYPE() PRINCIPAL() | GROUP()."""
    given = _given(command)
    object_type, profile = _object(queue_manager, command, given, "PROFILE")
    entity = _entity(command, given)
    nothing_else(command, kind, given)
    key = RecordKey(object_type, profile, entity)
    if queue_manager.registry.authority.bits(key) is None:
        return not_found(profile)
    delete_authority(queue_manager, key)
    return done("AMQ8863I", "IBM MQ authority record deleted.")


def display_records(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DISPLAY AUTHREC [PROFILE()] [OBJTYPE()] [PRINCIPAL() | GROUP()] [MATCH()]."""
    given = _given(command)
    profile = one_value(given.pop("PROFILE")) if "PROFILE" in given else None
    object_type = _object_type(given.pop("OBJTYPE")) if "OBJTYPE" in given else None
    entities = _entities(given)
    match = _match(given.pop("MATCH", None))
    _shown_only(command, kind, given)
    records = queue_manager.registry.authority
    with queue_manager.latch:
        if match == "MEMBERSHIP":
            users = [e.name for e in entities if e.kind == PRINCIPAL]
            entities += [e for user in users for e in records.entities_of(user)]
        rows = [
            _row(key, bits)
            for key, bits in records.all()
            if (object_type is None or key.object_type == object_type)
            and (profile is None or _names(key.profile, profile, match))
            and (not entities or key.entity in entities)
        ]
    if not rows:
        return not_found(profile or AUTHREC)
    heading = "AMQ8864I", "Display authority record details."
    return Outcome(tuple(Message(*heading, body(row)) for row in rows), tuple(rows))


def display_entity(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    """DISPLAY ENTAUTH PRINCIPAL() | GROUP() OBJTYPE() OBJNAME(): all that comes together."""
    given = _given(command)
    object_type, name = _object(queue_manager, command, given, "OBJNAME")
    entity = _entity(command, given)
    _shown_only(command, kind, given)
    records = queue_manager.registry.authority
    with queue_manager.latch:
        entities = records.entities_of(entity.name) if entity.kind == PRINCIPAL else [entity]
        bits = records.granted(entities, object_type, name)
    row: dict[str, Value] = {
        "OBJNAME": name,
        "ENTITY": entity.name,
        "ENTTYPE": entity.kind,
        "OBJTYPE": object_type,
        "AUTHLIST": spelled(bits),
    }
    heading = "AMQ8866I", "Display entity authority details."
    return Outcome((Message(*heading, body(row)),), (row,))


def _row(key: RecordKey, bits: int) -> dict[str, Value]:
    return {
        "PROFILE": key.profile,
        "ENTITY": key.entity.name,
        "ENTTYPE": key.entity.kind,
        "OBJTYPE": key.object_type,
        "AUTHLIST": spelled(bits),
    }


def _names(profile: str, wanted: str, match: str) -> bool:
    """Tell whether a profile is the one asked for or, unless EXACT, stands for that name."""
    if profile == wanted:
        return True
    return (
        match != "EXACT" and not is_generic(wanted) and bool(pattern_of(profile).fullmatch(wanted))
    )


def _given(command: Command) -> dict[str, Parameter]:
    no_value(command.object)
    return distinct(command.parameters)


def _object(
    queue_manager: Manager, command: Command, given: dict[str, Parameter], keyword: str
) -> tuple[str, str]:
    """Take type and name of an object out of the parameters; a queue manager's name is SELF."""
    if "OBJTYPE" not in given:
        raise command.object.wrong(f"OBJTYPE is missing: it is one of {', '.join(OBJECT_TYPES)}")
    object_type = _object_type(given.pop("OBJTYPE"))
    parameter = given.pop(keyword, None)
    if parameter is None and object_type != QMGR:
        raise command.object.wrong(f"{keyword} is missing")
    name = SELF if parameter is None else one_value(parameter)
    if parameter is not None and object_type == QMGR:
        if fold(name) not in (SELF, fold(queue_manager.name)):
            raise parameter.wrong(f"{parameter} is not right: for {QMGR} it must be {SELF}")
        name = SELF
    elif parameter is not None:
        _checked(parameter, partial(check_profile, name))
    return object_type, name


def _object_type(parameter: Parameter) -> str:
    found = fold(one_value(parameter))
    if found not in OBJECT_TYPES:
        choices = ", ".join(OBJECT_TYPES)
        raise parameter.wrong(f"{parameter} is not right: it must be one of {choices}")
    return found


def _entities(given: dict[str, Parameter]) -> list[Entity]:
    """Take users or groups out of the parameters; there may be none."""
    principals, groups = given.pop(PRINCIPAL, None), given.pop(GROUP, None)
    if principals is not None and groups is not None:
        raise groups.wrong(f"{GROUP} contradicts {PRINCIPAL}")
    kind = PRINCIPAL if groups is None else GROUP
    parameter = groups or principals
    if parameter is None:
        return []
    if not parameter.values:
        raise parameter.wrong(f"{kind} needs a name in parentheses")
    entities = [Entity(kind, token.typed) for token in parameter.values]
    for entity in entities:
        _checked(parameter, partial(check_entity, entity))
    return entities


def _entity(command: Command, given: dict[str, Parameter]) -> Entity:
    found = _entities(given)
    if len(found) != 1:
        raise command.object.wrong(f"one {PRINCIPAL} or one {GROUP} is needed")
    return found[0]


def _words(parameter: Parameter | None, object_type: str) -> tuple[str, ...]:
    """Return the authorities a keyword lists; each must be one of the type of object."""
    if parameter is None:
        return ()
    if not parameter.values:
        raise parameter.wrong(f"{parameter.keyword} needs authorities in parentheses")
    allowed = allowed_words(object_type)
    words = tuple(fold(token.text) for token in parameter.values)
    for word in words:
        if word not in allowed:
            said = f"{word} is no authority of {object_type}, which has {', '.join(allowed)}"
            raise parameter.wrong(said + nearest(word, allowed))
    return words


def _checked(parameter: Parameter, check: Callable[[], object]) -> None:
    """Say which parameter it is that the engine refuses."""
    try:
        check()
    except MQError as error:
        raise parameter.wrong(f"{parameter.keyword}: {error.detail}") from error


def _match(parameter: Parameter | None) -> str:
    match = _MATCHES[0] if parameter is None else fold(one_value(parameter))
    if parameter is not None and match not in _MATCHES:
        raise parameter.wrong(f"{parameter} is not right: it must be {' or '.join(_MATCHES)}")
    return match


def _shown_only(command: Command, kind: str, given: dict[str, Parameter]) -> None:
    """Take out what DISPLAY may be asked to show: it shows everything; refuse the rest."""
    for keyword in _SHOWN:
        parameter = given.pop(keyword, None)
        if parameter is not None:
            no_value(parameter)
    nothing_else(command, kind, given)
