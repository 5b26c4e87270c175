"""PCF commands about access: authority records, and rules for channels (CHLAUTH)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mayfly.admin import (
    CHLAUTH,
    GROUP,
    PRINCIPAL,
    QMGR,
    RULE_ACTIONS,
    AuthorityKey,
    Engine,
    Entity,
    Partner,
    Record,
    channel_rule_for,
    check_entity,
    check_profile,
    delete_authority,
    inquire_authority,
    inquire_channel_rules,
    inquire_entity,
    profile_of_manager,
    set_authority,
    set_channel_rule,
)
from mayfly.admin.authority_numbers import AUTHORITIES, ENTITY_TYPES, OBJECT_TYPES
from mayfly.admin.pcf.objects import structures_of, take_attributes
from mayfly.admin.pcf.parameters import Parameters, missing, wrong_value
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.pcf import PcfError, Structure, integer, integer_list, string

_CHANNEL_BYTES: Final = 20
_NAME_BYTES: Final = 48
_WORDS: Final = {number: word for word, number in AUTHORITIES.items()}
_ACTIONS: Final = dict(
    zip(
        (k.MQACT_ADD, k.MQACT_REPLACE, k.MQACT_REMOVE, k.MQACT_REMOVEALL), RULE_ACTIONS, strict=True
    )
)
_MATCHES: Final = {
    k.MQMATCH_GENERIC: "GENERIC",
    k.MQMATCH_EXACT: "EXACT",
    k.MQMATCH_ALL: "ALL",
    k.MQMATCH_RUNCHECK: "RUNCHECK",
}


def set_record(manager: Engine, parameters: Parameters) -> None:
    """Set the authorities of users and groups on the objects of a profile, all or none.

    Raises PcfError (MQRCCF_PARM_MISSING) without a user or group, or without a list of authorities.
    """
    object_type, profile = _object(manager, parameters, k.MQCACF_AUTH_PROFILE_NAME)
    entities = _entities(parameters)
    if not entities:
        raise missing(k.MQCACF_PRINCIPAL_ENTITY_NAMES)
    added = _words(parameters, k.MQIACF_AUTH_ADD_AUTHS)
    removed = _words(parameters, k.MQIACF_AUTH_REMOVE_AUTHS)
    if added is None and removed is None:
        raise missing(k.MQIACF_AUTH_ADD_AUTHS)
    parameters.end()
    set_authority(manager, object_type, profile, entities, add=added or (), remove=removed or ())


def delete_record(manager: Engine, parameters: Parameters) -> None:
    """Delete the authority records of users and groups for a profile; one at least must exist.

    Raises PcfError: MQRC_UNKNOWN_OBJECT_NAME if none exists, MQRCCF_PARM_MISSING without a user or
    group.
    """
    object_type, profile = _object(manager, parameters, k.MQCACF_AUTH_PROFILE_NAME)
    entities = _entities(parameters)
    if not entities:
        raise missing(k.MQCACF_PRINCIPAL_ENTITY_NAMES)
    parameters.end()
    found = [
        entity
        for entity in entities
        if inquire_authority(
            manager, [entity], profile=profile, object_type=object_type, match="EXACT"
        )
    ]
    if not found:
        text = f"no authority record of {profile} for {entities}"
        raise PcfError(rc.MQRC_UNKNOWN_OBJECT_NAME, text, k.MQCACF_AUTH_PROFILE_NAME)
    for entity in found:
        delete_authority(manager, AuthorityKey(object_type, profile, entity))


def inquire_records(manager: Engine, parameters: Parameters) -> list[list[Structure]]:
    """Return authority records, one message each.

    A blank MQCACF_AUTH_PROFILE_NAME is all profiles, no entity all users and groups. Of
    MQIACF_AUTH_OPTIONS count MQAUTHOPT_NAME_EXPLICIT, for the one profile with this name, and
    MQAUTHOPT_ENTITY_SET, which adds the records of a user's groups. Raises PcfError
    (MQRCCF_NONE_FOUND) for no record.
    """
    profile = parameters.text(k.MQCACF_AUTH_PROFILE_NAME) or None
    number = parameters.number(k.MQIACF_OBJECT_TYPE, (c.MQOT_ALL, *OBJECT_TYPES.values()))
    entity = _entity(parameters)
    options = parameters.number(k.MQIACF_AUTH_OPTIONS) or 0
    parameters.numbers(k.MQIACF_AUTH_PROFILE_ATTRS)
    parameters.end()
    match = "PROFILE"
    if options & k.MQAUTHOPT_ENTITY_SET:
        match = "MEMBERSHIP"
    elif options & k.MQAUTHOPT_NAME_EXPLICIT:
        match = "EXACT"
    found = inquire_authority(
        manager,
        [] if entity is None else [entity],
        profile=profile,
        object_type=None if number in (None, c.MQOT_ALL) else _type_of(number),
        match=match,
    )
    if not found:
        raise PcfError(k.MQRCCF_NONE_FOUND, "no authority record fits")
    return [_authority(record, "PROFILE", k.MQCACF_AUTH_PROFILE_NAME) for record in found]


def inquire_entity_authority(manager: Engine, parameters: Parameters) -> list[list[Structure]]:
    """Return one message: all authority that a user or group has on the object of a name.

    Raises PcfError (MQRCCF_PARM_MISSING) without a user or group.
    """
    object_type, name = _object(manager, parameters, k.MQCACF_OBJECT_NAME)
    entity = _entity(parameters)
    if entity is None:
        raise missing(k.MQCACF_ENTITY_NAME)
    parameters.number(k.MQIACF_AUTH_OPTIONS)
    parameters.numbers(k.MQIACF_AUTH_PROFILE_ATTRS)
    parameters.end()
    record = inquire_entity(manager, entity, object_type, name)
    return [_authority(record, "OBJNAME", k.MQCACF_OBJECT_NAME)]


def _authority(record: Record, keyword: str, number: int) -> list[Structure]:
    """Return an authority record as structures; ``keyword`` and ``number`` are of its name."""
    values = record.values
    words = str(values["AUTHLIST"]).split(",")
    return [
        string(number, str(values[keyword]), _NAME_BYTES),
        integer(k.MQIACF_OBJECT_TYPE, OBJECT_TYPES[str(values["OBJTYPE"])]),
        string(k.MQCACF_ENTITY_NAME, str(values["ENTITY"])),
        integer(k.MQIACF_ENTITY_TYPE, ENTITY_TYPES[str(values["ENTTYPE"])]),
        integer_list(k.MQIACF_AUTHORIZATION_LIST, [AUTHORITIES[word] for word in words]),
    ]


def _object(manager: Engine, parameters: Parameters, name: int) -> tuple[str, str]:
    """Take the type and name of an object or profile; return (type, name).

    ``name`` is the number of the parameter with the name. For the queue manager the name is SELF,
    and may be left out. Raises PcfError: MQRCCF_PARM_MISSING without MQIACF_OBJECT_TYPE,
    MQRCCF_PARM_VALUE_ERROR for the name of another queue manager.
    """
    number = parameters.number(k.MQIACF_OBJECT_TYPE, OBJECT_TYPES.values())
    if number is None:
        raise missing(k.MQIACF_OBJECT_TYPE)
    object_type = _type_of(number)
    if object_type == QMGR:
        given = parameters.text(name) or ""
        manager_profile = profile_of_manager(manager, given)
        if manager_profile is None:
            raise wrong_value(name, given, f"the name of the queue manager, {manager.name}")
        return object_type, manager_profile
    profile = parameters.needed_text(name)
    check_profile(profile)
    return object_type, profile


def _type_of(number: int | None) -> str:
    """Return the OBJTYPE of a number MQOT_*, which must be one of an authority record."""
    return next(word for word, of_word in OBJECT_TYPES.items() if of_word == number)


def _entities(parameters: Parameters) -> list[Entity]:
    """Take the lists of users and groups; empty if none is named."""
    found = [
        Entity(kind, name)
        for kind, number in (
            (PRINCIPAL, k.MQCACF_PRINCIPAL_ENTITY_NAMES),
            (GROUP, k.MQCACF_GROUP_ENTITY_NAMES),
        )
        for name in parameters.texts(number)
    ]
    for entity in found:
        check_entity(entity)
    return found


def _entity(parameters: Parameters) -> Entity | None:
    """Take the name and the type of one user or group; None without a name.

    Raises PcfError (MQRCCF_PARM_MISSING) for a name without a type.
    """
    name = parameters.text(k.MQCACF_ENTITY_NAME)
    number = parameters.number(k.MQIACF_ENTITY_TYPE, ENTITY_TYPES.values())
    if not name:
        return None
    if number is None:
        raise missing(k.MQIACF_ENTITY_TYPE)
    entity = Entity(GROUP if number == k.MQZAET_GROUP else PRINCIPAL, name)
    check_entity(entity)
    return entity


def _words(parameters: Parameters, number: int) -> list[str] | None:
    """Take a list of authorities MQAUTH_*; return their words, None if it is not given.

    ``number`` is the number of the parameter. Raises PcfError (MQRCCF_PARM_VALUE_ERROR) for a value
    that is no authority.
    """
    values = parameters.numbers(number)
    for value in values or ():
        if value not in _WORDS:
            raise wrong_value(number, value, "an authority MQAUTH_*")
    return None if values is None else [_WORDS[value] for value in values]


def set_rule(manager: Engine, parameters: Parameters) -> None:
    """Add, replace or remove a rule for channels, by MQIACF_ACTION; MQACT_ADD is the default."""
    profile = parameters.needed_text(k.MQCACH_CHANNEL_NAME)
    action = parameters.number(k.MQIACF_ACTION, _ACTIONS)
    attributes = take_attributes(parameters, CHLAUTH)
    parameters.end()
    set_channel_rule(
        manager, profile, attributes, _ACTIONS[k.MQACT_ADD if action is None else action]
    )


def inquire_rules(manager: Engine, parameters: Parameters) -> list[list[Structure]]:
    """Return rules for channels, one message each.

    With MQMATCH_RUNCHECK it is the rule that a partner would meet, or the user under whom its
    channel would run. Raises PcfError (MQRCCF_CHLAUTH_NOT_FOUND) for no rule.
    """
    profile = parameters.needed_text(k.MQCACH_CHANNEL_NAME)
    match = parameters.number(k.MQIACH_MATCH, _MATCHES)
    wanted = parameters.numbers(k.MQIACF_CHLAUTH_ATTRS)
    if match == k.MQMATCH_RUNCHECK:
        return [_checked(manager, profile, parameters, wanted)]
    types = (
        k.MQCAUT_BLOCKUSER,
        k.MQCAUT_BLOCKADDR,
        k.MQCAUT_SSLPEERMAP,
        k.MQCAUT_ADDRESSMAP,
        k.MQCAUT_USERMAP,
        k.MQCAUT_QMGRMAP,
    )
    rule_type = parameters.number(k.MQIACF_CHLAUTH_TYPE, (k.MQCAUT_ALL, *types))
    parameters.end()
    found = inquire_channel_rules(
        manager,
        profile,
        rule_type=None if rule_type == k.MQCAUT_ALL else rule_type,
        match=_MATCHES[k.MQMATCH_GENERIC if match is None else match],
    )
    if not found:
        text = f"no rule for channels like {profile!r}"
        raise PcfError(k.MQRCCF_CHLAUTH_NOT_FOUND, text, k.MQCACH_CHANNEL_NAME)
    return [_rule(record, wanted) for record in found]


def _checked(
    manager: Engine, channel: str, parameters: Parameters, wanted: Iterable[int] | None
) -> list[Structure]:
    """Return the rule that a partner meets, or channel and user if no rule fits it.

    The parameters of the command describe the partner. ``wanted`` are the attributes of the rule to
    return, None for all. Raises PcfError: MQRCCF_PARM_VALUE_ERROR for a generic channel name,
    MQRCCF_PARM_MISSING without an address, or without a user or queue manager.
    """
    if "*" in channel:
        raise wrong_value(k.MQCACH_CHANNEL_NAME, channel, "the name of one channel")

    def text(parameter: int) -> str:
        return parameters.text(parameter) or ""

    partner = Partner(
        channel,
        text(k.MQCACH_CONNECTION_NAME),
        text(k.MQCACH_CLIENT_USER_ID),
        text(c.MQCA_REMOTE_Q_MGR_NAME),
        text(k.MQCACH_SSL_PEER_NAME),
        text(c.MQCA_SSL_CERT_ISSUER_NAME),
    )
    parameters.end()
    if not partner.address:
        raise missing(k.MQCACH_CONNECTION_NAME)
    if not (partner.user or partner.manager):
        raise missing(k.MQCACH_CLIENT_USER_ID)
    found = channel_rule_for(manager, partner)
    if isinstance(found, str):
        name = string(k.MQCACH_CHANNEL_NAME, channel, _CHANNEL_BYTES)
        return [name, string(k.MQCACH_MCA_USER_ID, found)]
    return _rule(found, wanted)


def _rule(record: Record, wanted: Iterable[int] | None) -> list[Structure]:
    """Return a rule as structures: profile and type first, then what is wanted."""
    shown = None if wanted is None else (*wanted, k.MQIACF_CHLAUTH_TYPE)
    profile = string(k.MQCACH_CHANNEL_NAME, record.name, _CHANNEL_BYTES)
    return [profile, *structures_of(record, shown)]
