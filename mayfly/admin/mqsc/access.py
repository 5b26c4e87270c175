"""MQSC commands about access: authority records, channel rules (CHLAUTH), REFRESH SECURITY."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from mayfly.admin import (
    AUTHREC,
    CHLAUTH,
    GROUP,
    MATCHES,
    OBJECT_TYPES,
    PRINCIPAL,
    QMGR,
    RULE_ACTIONS,
    RULE_MATCHES,
    SELF,
    AuthorityKey,
    Entity,
    Partner,
    Value,
    authorities_of,
    channel_rule_for,
    check_entity,
    check_profile,
    delete_authority,
    fold,
    inquire_authority,
    inquire_channel_rules,
    inquire_entity,
    object_type,
    profile_of_manager,
    refresh_security,
    set_authority,
    set_channel_rule,
)
from mayfly.admin.mqsc.display import (
    Reply,
    Selection,
    done,
    not_found,
    nothing_else,
    selection,
    shown,
)
from mayfly.admin.mqsc.grammar import (
    Command,
    Parameter,
    attribute_value,
    checked_by,
    distinct,
    nearest,
    no_value,
    one_value,
    unknown,
    word_of,
)
from mayfly.mqi import command_constants as k
from mayfly.mqi.errors import MQError
from mayfly.verbs.facts import MqscMessage

if TYPE_CHECKING:
    from mayfly.admin import Engine

#: Attributes that DISPLAY always shows, or that may be asked for.
_SHOWN: Final = ("AUTHLIST", "ENTITY", "ENTTYPE", "OBJTYPE", "ALL")
_ROWS: Final = object_type(CHLAUTH).attributes
#: Names of users keep their case without quotes, as in SET AUTHREC; lists have several values.
_AS_TYPED: Final = ("CLNTUSER", "MCAUSER", "USERLIST", "ADDRLIST", "QMNAME")
_LISTS: Final = ("USERLIST", "ADDRLIST")
_DETAILS: Final = ("AMQ8878I", "Display channel authentication record details.")
_REFUSALS: Final = {
    k.MQRCCF_CHLAUTH_ALREADY_EXISTS: ("AMQ8883E", "Channel authentication record already exists."),
    k.MQRCCF_CHLAUTH_NOT_FOUND: ("AMQ8884E", "Channel authentication record not found."),
}
_SECURITY_TYPES: Final = ("CONNAUTH", "AUTHSERV", "SSL")


def set_record(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run SET AUTHREC PROFILE() OBJTYPE() PRINCIPAL() | GROUP() AUTHADD() AUTHRMV().

    Returns the reply AMQ8862I; the change is durable. Raises MqscSyntaxError for a missing or wrong
    parameter. ``kind`` is AUTHREC.
    """
    remaining = _parameters(command)
    object_type, profile = _object(queue_manager, command, remaining, "PROFILE")
    entities = _entities(remaining)
    if not entities:
        raise command.object.wrong(f"{PRINCIPAL} or {GROUP} is missing")
    if not {"AUTHADD", "AUTHRMV"} & remaining.keys():
        raise command.object.wrong("AUTHADD or AUTHRMV is missing")
    add = _words(remaining.pop("AUTHADD", None), object_type)
    remove = _words(remaining.pop("AUTHRMV", None), object_type)
    nothing_else(command, kind, remaining)
    set_authority(queue_manager, object_type, profile, entities, add=add, remove=remove)
    return done("AMQ8862I", "IBM MQ authority record set.")


def delete_record(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DELETE AUTHREC PROFILE() OBJTYPE() PRINCIPAL() | GROUP().

    Returns the reply AMQ8863I, or AMQ8147E if the record does not exist. Raises MqscSyntaxError for
    a missing or wrong parameter. ``kind`` is AUTHREC.
    """
    remaining = _parameters(command)
    object_type, profile = _object(queue_manager, command, remaining, "PROFILE")
    entity = _entity(command, remaining)
    nothing_else(command, kind, remaining)
    same = {"profile": profile, "object_type": object_type, "match": "EXACT"}
    if not inquire_authority(queue_manager, [entity], **same):
        return not_found(profile)
    delete_authority(queue_manager, AuthorityKey(object_type, profile, entity))
    return done("AMQ8863I", "IBM MQ authority record deleted.")


def display_records(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DISPLAY AUTHREC [PROFILE()] [OBJTYPE()] [PRINCIPAL() | GROUP()] [MATCH()].

    Returns a message for each authority record, AMQ8147E for none. Raises MqscSyntaxError for a
    wrong parameter. ``kind`` is AUTHREC.
    """
    remaining = _parameters(command)
    profile = one_value(remaining.pop("PROFILE")) if "PROFILE" in remaining else None
    object_type = _object_type(remaining.pop("OBJTYPE")) if "OBJTYPE" in remaining else None
    entities = _entities(remaining)
    match = word_of(remaining.pop("MATCH", None), MATCHES)
    _shown_only(command, kind, remaining)
    found = inquire_authority(
        queue_manager, entities, profile=profile, object_type=object_type, match=match
    )
    heading = "AMQ8864I", "Display authority record details."
    return shown(found, Selection(None, None), profile or AUTHREC, *heading)


def display_entity(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DISPLAY ENTAUTH PRINCIPAL() | GROUP() OBJTYPE() OBJNAME().

    Returns one message with the authority of the user or group from all records together. Raises
    MqscSyntaxError for a missing or wrong parameter. ``kind`` is ENTAUTH.
    """
    remaining = _parameters(command)
    object_type, name = _object(queue_manager, command, remaining, "OBJNAME")
    entity = _entity(command, remaining)
    _shown_only(command, kind, remaining)
    found = inquire_entity(queue_manager, entity, object_type, name)
    heading = "AMQ8866I", "Display entity authority details."
    return shown([found], Selection(None, None), name, *heading)


def _parameters(command: Command) -> dict[str, Parameter]:
    """Return the parameters of a command by keyword.

    Raises MqscSyntaxError for a keyword that is repeated, or if the object has a value, as in
    AUTHREC(X).
    """
    no_value(command.object)
    return distinct(command.parameters)


def _object(
    queue_manager: Engine, command: Command, remaining: dict[str, Parameter], keyword: str
) -> tuple[str, str]:
    """Remove OBJTYPE() and ``keyword`` from ``remaining``; return (object type, name).

    ``keyword`` is the parameter that has the name. For the queue manager the name is SELF. Raises
    MqscSyntaxError for a missing or wrong parameter.
    """
    if "OBJTYPE" not in remaining:
        raise command.object.wrong(f"OBJTYPE is missing: it is one of {', '.join(OBJECT_TYPES)}")
    object_type = _object_type(remaining.pop("OBJTYPE"))
    parameter = remaining.pop(keyword, None)
    if object_type == QMGR:
        given = "" if parameter is None else one_value(parameter)
        profile = profile_of_manager(queue_manager, given)
        if profile is None:
            assert parameter is not None
            raise parameter.wrong(f"{parameter} is not right: for {QMGR} it must be {SELF}")
        return object_type, profile
    if parameter is None:
        raise command.object.wrong(f"{keyword} is missing")
    name = one_value(parameter)
    checked_by(parameter, partial(check_profile, name))
    return object_type, name


def _object_type(parameter: Parameter) -> str:
    """Return the object type in OBJTYPE(), in upper case.

    Raises MqscSyntaxError for an unknown type or no value.
    """
    found = fold(one_value(parameter))
    if found not in OBJECT_TYPES:
        choices = ", ".join(OBJECT_TYPES)
        raise parameter.wrong(f"{parameter} is not right: it must be one of {choices}")
    return found


def _entities(remaining: dict[str, Parameter]) -> list[Entity]:
    """Remove PRINCIPAL() or GROUP() from ``remaining``; return its users or groups.

    Without either the list is empty. Raises MqscSyntaxError for both of them, and for an invalid
    name.
    """
    principals, groups = remaining.pop(PRINCIPAL, None), remaining.pop(GROUP, None)
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
        checked_by(parameter, partial(check_entity, entity))
    return entities


def _entity(command: Command, remaining: dict[str, Parameter]) -> Entity:
    """Remove PRINCIPAL() or GROUP() from ``remaining``; return its user or group.

    Raises MqscSyntaxError unless it is exactly one.
    """
    found = _entities(remaining)
    if len(found) != 1:
        raise command.object.wrong(f"one {PRINCIPAL} or one {GROUP} is needed")
    return found[0]


def _words(parameter: Parameter | None, object_type: str) -> tuple[str, ...]:
    """Return the authorities in AUTHADD() or AUTHRMV(), in upper case; none for None.

    Raises MqscSyntaxError for a word that is no authority of the object type, or without words.
    """
    if parameter is None:
        return ()
    if not parameter.values:
        raise parameter.wrong(f"{parameter.keyword} needs authorities in parentheses")
    allowed = authorities_of(object_type)
    words = tuple(fold(token.text) for token in parameter.values)
    for word in words:
        if word not in allowed:
            text = f"{word} is no authority of {object_type}, which has {', '.join(allowed)}"
            raise parameter.wrong(text + nearest(word, allowed))
    return words


def _shown_only(command: Command, kind: str, remaining: dict[str, Parameter]) -> None:
    """Remove the attributes to display (ENTITY, ALL …) from ``remaining``; DISPLAY shows all.

    Raises MqscSyntaxError for any other keyword in ``remaining``.
    """
    for keyword in _SHOWN:
        parameter = remaining.pop(keyword, None)
        if parameter is not None:
            no_value(parameter)
    nothing_else(command, kind, remaining)


def set_rule(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run SET CHLAUTH(profile) TYPE(type) … [ACTION(ADD | REPLACE | REMOVE | REMOVEALL)].

    Returns the reply AMQ8877I, AMQ8883E for a rule that exists already, or AMQ8884E for a missing
    rule. The change is durable. Raises MqscSyntaxError, or AdminError for wrong attributes.
    ``kind`` is CHLAUTH.
    """
    profile = one_value(command.object)
    remaining = distinct(command.parameters)
    action = word_of(remaining.pop("ACTION", None), RULE_ACTIONS)
    values = {keyword: _value(parameter, kind) for keyword, parameter in remaining.items()}
    try:
        set_channel_rule(queue_manager, profile, values, action)
    except MQError as error:
        if error.reason not in _REFUSALS:
            raise
        return _refusal(error.reason)
    return done("AMQ8877I", "IBM MQ channel authentication record set.")


def display_rules(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DISPLAY CHLAUTH(profile) [TYPE()] [MATCH()] [attributes].

    Returns a message for each rule, AMQ8884E for none. Raises MqscSyntaxError for a wrong
    parameter. ``kind`` is CHLAUTH.
    """
    profile = one_value(command.object)
    remaining = distinct(command.parameters)
    match = word_of(remaining.pop("MATCH", None), RULE_MATCHES)
    if match == "RUNCHECK":
        return _run_check(queue_manager, command, profile, remaining)
    rule_type = None
    if "TYPE" in remaining and remaining["TYPE"].values is not None:
        parameter = remaining.pop("TYPE")
        if fold(one_value(parameter)) != "ALL":
            rule_type = int(attribute_value(_ROWS["TYPE"], parameter))
    wanted = selection(remaining, (kind,), generic=True)
    found = inquire_channel_rules(queue_manager, profile, rule_type=rule_type, match=match)
    if not found:
        return _refusal(k.MQRCCF_CHLAUTH_NOT_FOUND)
    return shown(found, wanted, profile, *_DETAILS)


def refresh(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run REFRESH SECURITY[(*)] [TYPE(CONNAUTH | AUTHSERV | SSL)]; each type refreshes everything.

    Returns the reply AMQ8560I. Raises MqscSyntaxError for a wrong parameter. ``kind`` is SECURITY.
    """
    remaining = distinct(command.parameters)
    security_type = remaining.pop("TYPE", None)
    if security_type is not None:
        word_of(security_type, _SECURITY_TYPES)
    nothing_else(command, kind, remaining)
    refresh_security(queue_manager)
    return done("AMQ8560I", "IBM MQ security cache refreshed.")


def _run_check(
    queue_manager: Engine, command: Command, profile: str, remaining: dict[str, Parameter]
) -> Reply:
    """Run DISPLAY CHLAUTH(channel) MATCH(RUNCHECK) ADDRESS() CLNTUSER() | QMNAME() […].

    ``profile`` is the channel's name, ``remaining`` are the other parameters. Returns a message
    with the rule that applies to this partner, or AMQ9783I with the user of the channel if no rule
    applies. Raises MqscSyntaxError for a generic channel name and a missing or wrong parameter.
    """
    if "*" in profile:
        raise command.object.wrong("MATCH(RUNCHECK) is about one channel: give its name")

    def text(keyword: str) -> str:
        parameter = remaining.pop(keyword, None)
        return "" if parameter is None else _typed_text(parameter)

    partner = Partner(
        profile,
        text("ADDRESS"),
        text("CLNTUSER"),
        text("QMNAME"),
        text("SSLPEER"),
        text("SSLCERTI"),
    )
    remaining.pop("ALL", None)
    nothing_else(command, "CHLAUTH MATCH(RUNCHECK)", remaining)
    if not partner.address or not (partner.user or partner.manager):
        raise command.object.wrong("MATCH(RUNCHECK) needs ADDRESS, and CLNTUSER or QMNAME")
    found = channel_rule_for(queue_manager, partner)
    if isinstance(found, str):
        return done("AMQ9783I", f"Channel will run using MCAUSER('{found}').")
    return shown([found], selection({}, (CHLAUTH,), generic=False), profile, *_DETAILS)


def _typed_text(parameter: Parameter) -> str:
    """Return the value of a parameter as typed, not in upper case; user names keep their case.

    Raises MqscSyntaxError for no value or several.
    """
    one_value(parameter)
    assert parameter.values is not None
    return parameter.values[0].typed


def _value(parameter: Parameter, kind: str) -> Value:
    """Return the value of a CHLAUTH attribute: a text, or the number of a word.

    The entries of USERLIST and ADDRLIST are joined by commas. Raises MqscSyntaxError for an unknown
    keyword or a wrong value.
    """
    keyword = parameter.keyword
    if keyword not in _ROWS or keyword == "PROFILE":
        raise unknown(parameter, kind, _ROWS)
    if keyword in _LISTS:
        return ",".join(token.typed for token in parameter.values or ())
    if keyword in _AS_TYPED:
        return _typed_text(parameter)
    row = _ROWS[keyword]
    return one_value(parameter) if row.is_text else attribute_value(row, parameter)


def _refusal(reason: int) -> Reply:
    """Return the reply for MQRCCF_CHLAUTH_ALREADY_EXISTS or MQRCCF_CHLAUTH_NOT_FOUND."""
    return Reply((MqscMessage(*_REFUSALS[reason], reason=reason),))
