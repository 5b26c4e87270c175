"""Display and change of access: authority records (AUTHREC), and rules for channels (CHLAUTH)."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

from mayfly.admin.events import reporting_change
from mayfly.admin.model import (
    ENTAUTH,
    AdminError,
    Record,
    WrongObject,
    WrongValue,
    checked,
    fold,
    missing_attribute,
    named,
)
from mayfly.admin.security.applicant import is_administrator, rules_of, wants_host_names
from mayfly.admin.security.rules import (
    ANY_ADDRESS,
    Partner,
    blocking_address,
    blocking_user,
    check_address_pattern,
    check_host_name,
    has_name,
    is_host_name,
    mapping,
    names_of,
)
from mayfly.admin.security.users import User, users_of
from mayfly.engine import Engine
from mayfly.engine.api.administration import (
    AUTHREC,
    CHANNEL,
    CHLAUTH,
    CLASS_PROFILE,
    PRINCIPAL,
    RULE_ACTIONS,
    RULE_LISTS,
    SELF,
    AuthorityKey,
    ChannelRuleDefinition,
    Entity,
    attributes_of,
    channel_rules,
    entities_of,
    granted,
    is_generic_profile,
    profile_pattern,
    set_rule,
    spelled_authorities,
    view_authority,
    view_named,
)
from mayfly.engine.api.administration import delete_authority as delete_authority_record
from mayfly.engine.api.administration import set_authority as set_authority_records
from mayfly.mqi import channel_names
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.verbs.facts import Value

#: How DISPLAY AUTHREC compares profiles: those that match the name, those with the records of the
#: users' groups, or the one of exactly that name.
MATCHES: Final = ("PROFILE", "MEMBERSHIP", "EXACT")
ADD, _REPLACE, _REMOVE, _REMOVEALL = RULE_ACTIONS
#: How DISPLAY CHLAUTH compares names of channels; RUNCHECK asks for one partner.
RULE_MATCHES: Final = ("GENERIC", "EXACT", "ALL", "RUNCHECK")
_TYPE: Final = "TYPE"
_NEEDED: Final = {
    **RULE_LISTS,
    k.MQCAUT_SSLPEERMAP: "SSLPEER",
    k.MQCAUT_ADDRESSMAP: "ADDRESS",
    k.MQCAUT_USERMAP: "CLNTUSER",
    k.MQCAUT_QMGRMAP: "QMNAME",
}
_OF_ALL: Final = ("DESCR", "CUSTOM", "WARN")
_OF_MAPS: Final = ("ADDRESS", "USERSRC", "MCAUSER", "CHCKCLNT")
_PROFILE: Final = re.compile(r"[A-Za-z0-9./_%*]{1,20}")
_MAX_ENTRIES: Final = 100
_EVERY_OBJECT: Final = "**"


def profile_of_manager(manager: Engine, given: str) -> str | None:
    """Return the profile that ``given`` means with OBJTYPE(QMGR), None for another queue manager.

    "", SELF, ``**`` and the name of the queue manager, in any case, mean SELF. ``@class`` stays.
    """
    if given == CLASS_PROFILE:
        return given
    return SELF if fold(given) in ("", SELF, _EVERY_OBJECT, fold(manager.name)) else None


def set_authority(
    manager: Engine,
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

    def find() -> dict[Hashable, Record]:
        return _records(manager, object_type, profile, entities)

    with reporting_change(manager, AUTHREC, find):
        set_authority_records(manager, object_type, profile, entities, add=add, remove=remove)


def delete_authority(manager: Engine, key: AuthorityKey) -> None:
    """Delete one authority record; durable on return.

    Authorities from other records stay. Raises MQRC_UNKNOWN_OBJECT_NAME when no record has this
    key, and for an invalid key MQRC_OBJECT_TYPE_ERROR, MQRC_OBJECT_NAME_ERROR or
    MQRC_OPTIONS_ERROR.
    """

    def find() -> dict[Hashable, Record]:
        return _records(manager, key.object_type, key.profile, [key.entity])

    with reporting_change(manager, AUTHREC, find):
        delete_authority_record(manager, key)


def _records(
    manager: Engine, object_type: str, profile: str, entities: Sequence[Entity]
) -> dict[Hashable, Record]:
    """Return the authority records of a profile for users and groups, by these."""
    return {
        entity: record
        for entity in entities
        for record in inquire_authority(
            manager, [entity], profile=profile, object_type=object_type, match="EXACT"
        )
    }


def inquire_authority(
    manager: Engine,
    entities: Sequence[Entity],
    *,
    profile: str | None = None,
    object_type: str | None = None,
    match: str = MATCHES[0],
) -> list[Record]:
    """Return the authority records of ``entities``, of all users and groups if it is empty.

    ``profile`` and ``object_type`` select records; None selects all. ``match`` says how ``profile``
    is compared: EXACT finds only the record of that profile, PROFILE also generic profiles that
    match it. MEMBERSHIP compares as PROFILE, and adds the records of the users' groups. Returns an
    empty list if no record fits.
    """
    wanted = list(entities)
    if match == "MEMBERSHIP":
        wanted += entities_of(manager, [e for e in entities if e.kind == PRINCIPAL])
    return [
        _authority_record(AUTHREC, "PROFILE", key, bits)
        for key, bits in view_authority(manager, profile if match == "EXACT" else None)
        if (object_type is None or key.object_type == object_type)
        and (profile is None or _stands_for(key.profile, profile, match))
        and (not wanted or key.entity in wanted)
    ]


def inquire_entity(manager: Engine, entity: Entity, object_type: str, name: str) -> Record:
    """Return an ENTAUTH record: the authority of a user or group on one object.

    ``entity`` is the user or group; ``object_type`` and ``name`` are the object. It is the sum of
    all matching authority records, also those of the user's groups. Without any record its AUTHLIST
    is NONE.
    """
    bits = granted(manager, entities_of(manager, [entity]), object_type, name)
    return _authority_record(ENTAUTH, "OBJNAME", AuthorityKey(object_type, name, entity), bits)


def _authority_record(kind: str, keyword: str, key: AuthorityKey, bits: int) -> Record:
    """Return an AUTHREC or ENTAUTH record (``kind``) of the authorities in ``bits``.

    ``keyword`` is the attribute that shows ``key.profile``: PROFILE in AUTHREC, OBJNAME in ENTAUTH.
    """
    values: dict[str, Value] = {
        keyword: key.profile,
        "ENTITY": key.entity.name,
        "ENTTYPE": key.entity.kind,
        "OBJTYPE": key.object_type,
        "AUTHLIST": spelled_authorities(bits),
    }
    return Record(kind, key.profile, values)


def _stands_for(profile: str, wanted: str, match: str) -> bool:
    """Return True if DISPLAY AUTHREC PROFILE(``wanted``) shows the record of ``profile``.

    Equal names always match. Unless ``match`` is EXACT, a generic ``profile`` matches a full name:
    ``A.**`` matches ``A.B``. A generic ``wanted`` matches only itself.
    """
    if profile == wanted:
        return True
    if match == "EXACT" or is_generic_profile(wanted) or not is_generic_profile(profile):
        return False
    return bool(profile_pattern(profile).fullmatch(wanted))


def set_channel_rule(
    manager: Engine, profile: str, attributes: Mapping[str, Value], action: str = ADD
) -> None:
    """Add, replace or remove a CHLAUTH rule of a channel profile; durable on return.

    ``action`` is ADD, REPLACE, REMOVE or REMOVEALL. ADD of a list (BLOCKUSER, BLOCKADDR) that
    exists appends to the list; ADD of a map that exists raises MQRCCF_CHLAUTH_ALREADY_EXISTS. After
    REPLACE the attributes left out have their defaults. REMOVE of a list removes the given entries
    only; a missing entry or map raises MQRCCF_CHLAUTH_NOT_FOUND. REMOVEALL removes all rules of the
    TYPE from the profile; without any it does nothing. Raises AdminError for a wrong profile, and
    for wrong, missing or contradicting attributes.
    """
    given = _checked_all(attributes)
    if _TYPE not in given:
        raise missing_attribute(
            _TYPE, " or ".join(w for w, _ in attributes_of(CHLAUTH)[_TYPE].words)
        )
    if not _PROFILE.fullmatch(profile):
        text = f"channel profile {profile!r} is not 1 to 20 characters of A-Z a-z 0-9 . / _ % *"
        raise WrongObject(k.MQRCCF_ATTR_VALUE_ERROR, CHLAUTH, profile, text)
    rule_type = int(given[_TYPE])
    if rule_type == k.MQCAUT_BLOCKADDR and profile != "*":
        text = "TYPE(BLOCKADDR) is for all channels: the profile is *"
        raise WrongObject(k.MQRCCF_ATTR_VALUE_ERROR, CHLAUTH, profile, text)
    _check_keywords(given, rule_type, action)
    if action in (ADD, _REPLACE) and rule_type not in RULE_LISTS:
        _check_user(given)
        _check_names(given)
    rule = ChannelRuleDefinition(CHLAUTH, "", profile=profile).altered(given)

    def find() -> dict[Hashable, Record]:
        rules = channel_rules(manager)
        same = [each for each in rules if (each.profile, each.type) == (profile, rule_type)]
        return {each.name: record_of(each) for each in same}

    with reporting_change(manager, CHLAUTH, find):
        set_rule(manager, rule, action)


def inquire_channel_rules(
    manager: Engine, pattern: str, *, rule_type: int | None = None, match: str = RULE_MATCHES[0]
) -> list[Record]:
    """Return the CHLAUTH rules whose profile matches ``pattern``, ordered by profile and type.

    ``rule_type`` is an MQCAUT_* number, None for all types. ``match`` says how profiles are
    compared: EXACT for equal names, GENERIC if ``pattern`` matches the profile as a name, ALL if
    some channel name could match both. Returns an empty list if no rule fits.
    """
    return [
        record_of(rule)
        for rule in sorted(channel_rules(manager), key=lambda rule: rule.name)
        if rule_type in (None, rule.type) and _is_selected(rule.profile, pattern, match)
    ]


def channel_rule_for(manager: Engine, partner: Partner) -> Record | str:
    """Return the CHLAUTH rule that applies to a partner, or a user name if no rule applies.

    ``partner`` is a connecting client or queue manager. The user name is the MCAUSER of the
    channel, else the user or queue manager of the partner. Looks up the partner's address in DNS if
    a rule has a host name; does not check passwords. With ALTER QMGR CHLAUTH(DISABLED) no rule
    applies.
    """
    rules = rules_of(manager)
    if wants_host_names(manager, partner.channel, partner.address):
        partner = partner._replace(host_names=names_of(partner.address))
    found = blocking_address(rules, partner.address) or mapping(rules, partner)
    user = partner.user or partner.manager
    for channel in view_named(manager, CHANNEL, partner.channel):
        user = str(channel.attributes["MCAUSER"]) or user
    if found is not None:
        if found.type == k.MQCAUT_BLOCKADDR or found.usersrc == c.MQUSRC_NOACCESS:
            return record_of(found)
        if found.usersrc == c.MQUSRC_MAP:
            user = found.mcauser
    if not partner.manager:
        is_admin = is_administrator(manager, users_of(manager).find(user) or User(user))
        blocking = blocking_user(rules, partner.channel, user, is_administrator=is_admin)
        found = found if blocking is None else blocking
    return user if found is None else record_of(found)


def record_of(rule: ChannelRuleDefinition) -> Record:
    """Return a CHLAUTH rule as a record, with only the attributes that its TYPE has."""
    keywords = [_TYPE, *_key_keywords(rule.type), *_OF_ALL]
    if rule.type not in RULE_LISTS:
        keywords.append("USERSRC")
        if rule.usersrc == c.MQUSRC_MAP:
            keywords.append("MCAUSER")
        if rule.usersrc != c.MQUSRC_NOACCESS:
            keywords.append("CHCKCLNT")
    values = rule.attributes
    shown = {keyword: values[keyword] for keyword in values if keyword in keywords}
    return Record(CHLAUTH, rule.profile, shown)


def _key_keywords(rule_type: int) -> tuple[str, ...]:
    """Return the keywords that, with profile and TYPE, identify a rule of an MQCAUT_* type.

    Example: for ADDRESSMAP ``('ADDRESS',)``, for SSLPEERMAP ``('SSLPEER', 'SSLCERTI', 'ADDRESS')``.
    """
    needed = _NEEDED[rule_type]
    if rule_type in RULE_LISTS:
        return (needed,)
    issuer = ("SSLCERTI",) if rule_type == k.MQCAUT_SSLPEERMAP else ()
    return (needed, *issuer, *(("ADDRESS",) if needed != "ADDRESS" else ()))


def _checked_all(attributes: Mapping[str, Value]) -> dict[str, Value]:
    """Return CHLAUTH attributes as they are stored, by keyword.

    Raises AdminError for an unknown keyword, WrongValue for an invalid value.
    """
    rows = attributes_of(CHLAUTH)
    values: dict[str, Value] = {}
    for keyword, value in attributes.items():
        if keyword not in rows or keyword == "PROFILE":
            text = f"{keyword} is no attribute of {CHLAUTH}"
            raise AdminError(k.MQRCCF_ATTR_VALUE_ERROR, keyword, value, text)
        # The name of a queue manager may be a pattern, which no name of an object is.
        is_pattern = keyword == "QMNAME"
        values[keyword] = value if is_pattern else checked(rows[keyword], value)
        _check_patterns(keyword, str(value))
    return values


def _check_names(given: Mapping[str, Value]) -> None:
    """Raise WrongValue if SSLPEER or SSLCERTI is a pattern that no certificate can match.

    ``given`` are the attributes of a rule; missing ones are not checked. Only new rules are
    checked, so that an older rule with such a pattern can still be removed.
    """
    for keyword in ("SSLPEER", "SSLCERTI"):
        value = str(given.get(keyword, ""))
        try:
            channel_names.check_pattern(value)
        except ValueError as error:
            raise WrongValue(attributes_of(CHLAUTH)[keyword], value, f": {error}") from error


def _check_patterns(keyword: str, value: str) -> None:
    """Raise WrongValue if the value of an attribute is a malformed pattern.

    Checks SSLPEER, SSLCERTI (distinguished names), ADDRESS (addresses, host names), ADDRLIST, and
    that USERLIST and ADDRLIST have at most 100 entries. Other keywords always pass.
    """
    row = attributes_of(CHLAUTH)[keyword]
    try:
        if keyword in ("SSLPEER", "SSLCERTI"):
            channel_names.attributes_of(value)
        elif keyword == "ADDRESS" and is_host_name(value):
            check_host_name(value)
        elif keyword == "ADDRESS" and value not in ("", ANY_ADDRESS):
            check_address_pattern(value)
        elif keyword in RULE_LISTS.values():
            entries = [entry for entry in value.split(",") if entry]
            if len(entries) > _MAX_ENTRIES:
                raise ValueError(f"{len(entries)} entries: the most is {_MAX_ENTRIES}")
            for entry in entries:
                if keyword == "ADDRLIST" and entry != ANY_ADDRESS:
                    check_address_pattern(entry)
    except ValueError as error:
        raise WrongValue(row, value, f": {error}") from error


def _check_keywords(given: Mapping[str, Value], rule_type: int, action: str) -> None:
    """Raise AdminError if ``rule_type`` with ``action`` does not allow a keyword, or needs one.

    A keyword that is not allowed raises MQRCCF_PARM_CONFLICT, a missing one MQRCCF_PARM_MISSING.
    ACTION(REPLACE) of a list may have an empty list.
    """
    word = named(attributes_of(CHLAUTH)[_TYPE], rule_type)
    keys = _key_keywords(rule_type)
    allowed = {_TYPE, *keys, *_OF_ALL, *(() if rule_type in RULE_LISTS else _OF_MAPS)}
    if action == _REMOVEALL:
        allowed = {_TYPE}
    elif action == _REMOVE:
        allowed = {_TYPE, *keys}
    for keyword, value in given.items():
        if keyword not in allowed:
            text = f"{keyword} is not for {_TYPE}({word}) ACTION({action})"
            raise AdminError(k.MQRCCF_PARM_CONFLICT, keyword, value, text)
    is_emptied = action == _REPLACE and rule_type in RULE_LISTS and keys[0] in given
    if action != _REMOVEALL and not given.get(keys[0]) and not is_emptied:
        raise missing_attribute(keys[0], f"TYPE({word}) needs it")


def _check_user(given: Mapping[str, Value]) -> None:
    """Raise AdminError if MCAUSER or CHCKCLNT does not suit USERSRC, which is MAP by default.

    USERSRC(MAP) needs MCAUSER; CHANNEL and NOACCESS forbid it. NOACCESS also forbids CHCKCLNT.
    """
    source = given.get("USERSRC", c.MQUSRC_MAP)
    if source == c.MQUSRC_MAP and not given.get("MCAUSER"):
        raise missing_attribute("MCAUSER", "USERSRC(MAP) needs it")
    wrong = ("MCAUSER",) if source == c.MQUSRC_CHANNEL else ("MCAUSER", "CHCKCLNT")
    if source != c.MQUSRC_MAP:
        for keyword in wrong:
            if keyword in given:
                word = named(attributes_of(CHLAUTH)["USERSRC"], source)
                text = f"{keyword} contradicts USERSRC({word})"
                raise AdminError(k.MQRCCF_PARM_CONFLICT, keyword, given[keyword], text)


def _is_selected(profile: str, pattern: str, match: str) -> bool:
    """Return True if DISPLAY CHLAUTH(``pattern``) MATCH(``match``) shows a channel profile.

    GENERIC is the comparison for any ``match`` but EXACT and ALL.
    """
    if match == "EXACT":
        return profile == pattern
    if match == "ALL":
        return _overlap(profile, pattern)
    return has_name(profile, pattern)


def _overlap(one: str, other: str) -> bool:
    """Return True if some name matches both patterns, as with ``A*`` and ``*B`` (``AB``).

    The run time grows with the product of both lengths.
    """
    # Entry n: whether the beginning of ``one`` so far shares a name with ``other[:n]``.
    shared = [not other[:length].strip("*") for length in range(len(other) + 1)]
    for letter in one:
        before, shared = shared, [shared[0] and letter == "*"]
        for position, opposite in enumerate(other):
            if "*" in (letter, opposite):
                shared.append(before[position + 1] or shared[position])
            else:
                shared.append(before[position] and letter == opposite)
    return shared[-1]
