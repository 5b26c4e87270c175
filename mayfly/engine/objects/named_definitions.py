"""Defines and changes processes, channels, AUTHINFO objects and channel rules (CHLAUTH)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from mayfly.engine.attributes import (
    AUTHINFO,
    CHANNEL,
    CHLAUTH,
    CLNTCONN,
    PROCESS,
    TABLES,
    AuthenticationDefinition,
    ChannelDefinition,
    ChannelRuleDefinition,
    Definition,
)
from mayfly.engine.core import Core
from mayfly.engine.objects.administration import erase, save, saving, saving_prototype
from mayfly.engine.transaction import Transaction
from mayfly.engine.triggering.triggering import triggering_of
from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.checks import check_name
from mayfly.verbs.facts import Value

ADD, REPLACE, REMOVE, REMOVEALL = "ADD", "REPLACE", "REMOVE", "REMOVEALL"
ACTIONS: Final = (ADD, REPLACE, REMOVE, REMOVEALL)
#: The types whose rules are lists, one for each profile, with the keyword of the list.
LISTS: Final = {k.MQCAUT_BLOCKUSER: "USERLIST", k.MQCAUT_BLOCKADDR: "ADDRLIST"}
#: Attributes by which a rule is found, beside its profile and its type.
_RULE_KEY: Final = ("sslpeer", "sslcerti", "clntuser", "qmname", "address")
DEFAULT_AUTHENTICATION: Final = "SYSTEM.DEFAULT.AUTHINFO.IDPWOS"
#: The model of a new channel, by type.
CHANNEL_MODELS: Final = {
    c.MQCHT_SVRCONN: "SYSTEM.DEF.SVRCONN",
    c.MQCHT_CLNTCONN: "SYSTEM.DEF.CLNTCONN",
}


def define_named(
    core: Core, kind: str, name: str, attributes: Mapping[str, Value], *, replace: bool = False
) -> None:
    """Define a process, channel or other named object; durable on return.

    Attributes that are left out have their defaults in a new object. With ``replace`` an existing
    object gets these attributes, and keeps the values of those left out. Raises
    MQRC_OBJECT_ALREADY_EXISTS without ``replace``, MQRC_OBJECT_NAME_ERROR.
    """
    check_name(name)
    core.check_running()
    with core.definitions_lock:
        existing = core.registry.named.get((kind, name))
        if existing is not None and not replace:
            raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, f"{kind} {name} exists")
        before = TABLES[kind](kind, name) if existing is None else existing
        keep_named(core, before.altered(attributes))


def alter_named(core: Core, kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes of a process, channel or other named object; durable on return.

    Attributes that are left out keep their values. Raises MQRC_UNKNOWN_OBJECT_NAME.
    """
    core.check_running()
    with core.definitions_lock:
        definition = find_named(core, kind, name)
        keep_named(core, definition.altered(attributes))


def delete_named(core: Core, kind: str, name: str) -> None:
    """Delete a process, channel or other named object; raises MQRC_UNKNOWN_OBJECT_NAME."""
    core.check_running()
    with core.definitions_lock:
        forget_named(core, find_named(core, kind, name))


def find_named(core: Core, kind: str, name: str) -> Definition:
    """Return the definition of a process, channel or other named object.

    Raises MQRC_UNKNOWN_OBJECT_NAME.
    """
    definition = core.registry.named.get((kind, name))
    if definition is None:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{kind} {name} is not defined")
    return definition


def find_channel(core: Core, name: str) -> ChannelDefinition:
    """Return the definition of a channel of any type but CLNTCONN.

    Raises MQRC_UNKNOWN_OBJECT_NAME.
    """
    definition = find_named(core, CHANNEL, name)
    assert isinstance(definition, ChannelDefinition)
    return definition


def named_of(core: Core, kind: str) -> list[Definition]:
    """Return all definitions of a kind, such as PROCESS or CHANNEL, sorted by name."""
    return [core.registry.named[key] for key in sorted(core.registry.named) if key[0] == kind]


def keep_named(core: Core, definition: Definition) -> None:
    """Store a new or changed definition, then set it in memory; call it without the engine lock.

    Queues that name a new process in PROCESS may get their trigger messages at once.
    """
    save(core, definition, 0)
    with core.engine_lock:
        key = definition.kind, definition.name
        is_new, core.registry.named[key] = key not in core.registry.named, definition
        if is_new and definition.kind == PROCESS:
            triggering_of(core).process_defined(definition.name)
    core.committer.run_deferred()


def forget_named(core: Core, definition: Definition) -> None:
    """Delete a definition from disk, then from memory; call it without the engine lock."""
    erase(core, definition)
    with core.engine_lock:
        del core.registry.named[definition.kind, definition.name]


def set_rule(core: Core, rule: ChannelRuleDefinition, action: str) -> None:
    """Change the channel rules (SET CHLAUTH) by one of ``ACTIONS``; durable on return.

    ADD appends to a list, and raises MQRCCF_CHLAUTH_ALREADY_EXISTS for a map that exists. REMOVE
    removes entries of a list, or a map, and raises MQRCCF_CHLAUTH_NOT_FOUND. REMOVEALL removes all
    rules of that type for that profile. REPLACE sets the list or map.
    """
    core.check_running()
    with core.definitions_lock:
        rules = channel_rules(core)
        same = [r for r in rules if r.profile == rule.profile and r.type == rule.type]
        if action == REMOVEALL:
            for each in same:
                forget_named(core, each)
            return
        existing = next((r for r in same if _rule_key(r) == _rule_key(rule)), None)
        if rule.type in LISTS:
            _change_list(core, existing, rule, action)
        elif action == REMOVE:
            if existing is None:
                raise _missing_rule(rule)
            forget_named(core, existing)
        elif existing is not None and action == ADD:
            raise mq_error(
                k.MQRCCF_CHLAUTH_ALREADY_EXISTS,
                f"a rule for {rule.profile} by {' '.join(filter(None, _rule_key(rule)))} exists",
            )
        else:
            keep_named(core, _named_rule(rule))


def channel_rules(core: Core) -> list[ChannelRuleDefinition]:
    """Return all channel rules (CHLAUTH); the caller must not change them."""
    found = named_of(core, CHLAUTH)
    return [rule for rule in found if isinstance(rule, ChannelRuleDefinition)]


def entries_of(text: str) -> list[str]:
    """Return the non-empty entries of a comma-separated list: ``"a,,b"`` -> ``["a", "b"]``."""
    return [entry for entry in text.split(",") if entry]


def _named_rule(rule: ChannelRuleDefinition) -> ChannelRuleDefinition:
    """Set the name under which a channel rule is stored, made of profile, type and key.

    Returns the rule.
    """
    rule.name = " ".join((rule.profile, str(rule.type), *map(repr, _rule_key(rule))))
    return rule


def _change_list(
    core: Core, existing: ChannelRuleDefinition | None, rule: ChannelRuleDefinition, action: str
) -> None:
    """Change the entries of a list rule as ``action`` (ADD, REPLACE, REMOVE) says.

    ``rule`` has the entries to add or remove, ``existing`` is the rule now, None without one. A
    rule without entries left is deleted. Raises MQRCCF_CHLAUTH_NOT_FOUND when an entry to be
    removed is missing.
    """
    keyword = LISTS[rule.type]
    given = entries_of(str(rule.attributes[keyword]))
    before = [] if existing is None else entries_of(str(existing.attributes[keyword]))
    if action == REMOVE:
        if existing is None or not set(given) <= set(before):
            raise _missing_rule(rule)
        left = [entry for entry in before if entry not in given]
        if left:
            keep_named(core, _named_rule(existing.altered({keyword: ",".join(left)})))
        else:
            forget_named(core, existing)
        return
    entries = given if action == REPLACE else list(dict.fromkeys([*before, *given]))
    keep_named(core, _named_rule(rule.altered({keyword: ",".join(entries)})))


def _rule_key(rule: ChannelRuleDefinition) -> tuple[str, ...]:
    """Return the values that identify a channel rule besides its profile and type."""
    return tuple(str(getattr(rule, field)) for field in _RULE_KEY)


def _missing_rule(rule: ChannelRuleDefinition) -> MQError:
    """Return the error MQRCCF_CHLAUTH_NOT_FOUND, for the caller to raise."""
    return mq_error(k.MQRCCF_CHLAUTH_NOT_FOUND, f"there is no such rule for {rule.profile}")


def set_up_client_objects(core: Core, opening: Transaction) -> None:
    """Define the channels, rules and AUTHINFO object for clients, once for each queue manager.

    Does nothing when they were defined before, even if they were deleted since. ``opening`` stores
    them, and the queue manager's own attributes, which is the last that a new one stores. Every
    client needs a password (CHCKCLNT(REQUIRED)), so nobody can connect to a new queue manager.
    IBM MQ demands it of administrators only (REQDADM), as the operating system knows the other
    users.
    """
    manager = core.registry.queue_manager
    if manager.has_client_objects:
        return
    made = [one for one in _objects() if (one.kind, one.name) not in core.registry.named]
    with core.engine_lock:
        manager.connauth = manager.connauth or DEFAULT_AUTHENTICATION
        manager.has_client_objects = 1
        core.registry.named.update({(one.kind, one.name): one for one in made})
    opening.unit.statements.extend(saving_prototype(one, 0) for one in made)
    opening.unit.statements.append(saving(manager, 0))


@cache
def _objects() -> tuple[Definition, ...]:
    """Return the definitions of the objects for clients; the caller must not change them."""
    models = [
        ChannelDefinition(
            CLNTCONN if channel_type == c.MQCHT_CLNTCONN else CHANNEL,
            name,
            chltype=channel_type,
            trptype=c.MQXPT_TCP,
            discint=0,
        )
        for channel_type, name in CHANNEL_MODELS.items()
    ]
    authentication = AuthenticationDefinition(
        AUTHINFO, DEFAULT_AUTHENTICATION, chckclnt=k.MQCHK_REQUIRED
    )
    return (*models, authentication, *map(_named_rule, _first_rules()))


def _first_rules() -> list[ChannelRuleDefinition]:
    """Return the three channel rules that IBM MQ also begins with.

    They block administrators, and all channels of the system but the one for administration.
    """
    return [
        ChannelRuleDefinition(
            CHLAUTH,
            "",
            profile="*",
            type=k.MQCAUT_BLOCKUSER,
            userlist="*MQADMIN",
            descr="Administrators are kept out",
        ),
        ChannelRuleDefinition(
            CHLAUTH,
            "",
            profile="SYSTEM.*",
            type=k.MQCAUT_ADDRESSMAP,
            address="*",
            usersrc=c.MQUSRC_NOACCESS,
            descr="Channels of the system are closed",
        ),
        ChannelRuleDefinition(
            CHLAUTH,
            "",
            profile="SYSTEM.ADMIN.SVRCONN",
            type=k.MQCAUT_ADDRESSMAP,
            address="*",
            usersrc=c.MQUSRC_CHANNEL,
            descr="The channel for administration is open",
        ),
    ]
