"""The MQSC commands about authority records, and about what somebody may do to an object."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from mayfly.admin import (
    AUTHREC,
    GROUP,
    MATCHES,
    OBJECT_TYPES,
    PRINCIPAL,
    QMGR,
    SELF,
    AuthorityKey,
    Entity,
    authorities_of,
    check_entity,
    check_profile,
    delete_authority,
    inquire_authority,
    inquire_entity,
    set_authority,
)
from mayfly.admin.mqsc.display import Selection
from mayfly.admin.mqsc.grammar import Command, Parameter, fold
from mayfly.admin.mqsc.outcome import Outcome, done, not_found, nothing_else, shown
from mayfly.admin.mqsc.values import distinct, nearest, no_value, one_value
from mayfly.mqi.errors import MQError

if TYPE_CHECKING:
    from mayfly.admin import Engine

#: Attributes that DISPLAY always shows, or that may be asked for.
_SHOWN: Final = ("AUTHLIST", "ENTITY", "ENTTYPE", "OBJTYPE", "ALL")


def set_record(queue_manager: Engine, command: Command, kind: str) -> Outcome:
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


def delete_record(queue_manager: Engine, command: Command, kind: str) -> Outcome:
    """DELETE AUTHREC PROFILE() OBJTYPE() PRINCIPAL() | GROUP()."""
    given = _given(command)
    object_type, profile = _object(queue_manager, command, given, "PROFILE")
    entity = _entity(command, given)
    nothing_else(command, kind, given)
    same = {"profile": profile, "object_type": object_type, "match": "EXACT"}
    if not inquire_authority(queue_manager, [entity], **same):
        return not_found(profile)
    delete_authority(queue_manager, AuthorityKey(object_type, profile, entity))
    return done("AMQ8863I", "IBM MQ authority record deleted.")


def display_records(queue_manager: Engine, command: Command, kind: str) -> Outcome:
    """DISPLAY AUTHREC [PROFILE()] [OBJTYPE()] [PRINCIPAL() | GROUP()] [MATCH()]."""
    given = _given(command)
    profile = one_value(given.pop("PROFILE")) if "PROFILE" in given else None
    object_type = _object_type(given.pop("OBJTYPE")) if "OBJTYPE" in given else None
    entities = _entities(given)
    match = _match(given.pop("MATCH", None))
    _shown_only(command, kind, given)
    found = inquire_authority(
        queue_manager, entities, profile=profile, object_type=object_type, match=match
    )
    heading = "AMQ8864I", "Display authority record details."
    return shown(found, Selection(None, None), profile or AUTHREC, heading)


def display_entity(queue_manager: Engine, command: Command, kind: str) -> Outcome:
    """DISPLAY ENTAUTH PRINCIPAL() | GROUP() OBJTYPE() OBJNAME(): all that comes together."""
    given = _given(command)
    object_type, name = _object(queue_manager, command, given, "OBJNAME")
    entity = _entity(command, given)
    _shown_only(command, kind, given)
    found = inquire_entity(queue_manager, entity, object_type, name)
    heading = "AMQ8866I", "Display entity authority details."
    return shown([found], Selection(None, None), name, heading)


def _given(command: Command) -> dict[str, Parameter]:
    no_value(command.object)
    return distinct(command.parameters)


def _object(
    queue_manager: Engine, command: Command, given: dict[str, Parameter], keyword: str
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
    allowed = authorities_of(object_type)
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
    match = MATCHES[0] if parameter is None else fold(one_value(parameter))
    if parameter is not None and match not in MATCHES:
        raise parameter.wrong(f"{parameter} is not right: it must be {' or '.join(MATCHES)}")
    return match


def _shown_only(command: Command, kind: str, given: dict[str, Parameter]) -> None:
    """Take out what DISPLAY may be asked to show: it shows everything; refuse the rest."""
    for keyword in _SHOWN:
        parameter = given.pop(keyword, None)
        if parameter is not None:
            no_value(parameter)
    nothing_else(command, kind, given)
