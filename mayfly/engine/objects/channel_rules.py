"""Rules for channels (CHLAUTH) change: added, replaced, removed; one has no name of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mayfly.engine.attributes.attribute import CHLAUTH
from mayfly.engine.attributes.of_admission import ChannelRuleDefinition
from mayfly.engine.core import Core
from mayfly.engine.objects.administration import erase, save
from mayfly.engine.objects.named import named_of
from mayfly.mqi import command_constants as k
from mayfly.mqi.errors import MQError, mq_error

ADD, REPLACE, REMOVE, REMOVEALL = "ADD", "REPLACE", "REMOVE", "REMOVEALL"
ACTIONS: Final = (ADD, REPLACE, REMOVE, REMOVEALL)
#: The types whose rules are lists, one for each profile, with the keyword of the list.
LISTS: Final = {k.MQCAUT_BLOCKUSER: "USERLIST", k.MQCAUT_BLOCKADDR: "ADDRLIST"}
#: Attributes by which a rule is found, beside its profile and its type.
_KEY: Final = ("sslpeer", "sslcerti", "clntuser", "qmname", "address")


def set_rule(core: Core, rule: ChannelRuleDefinition, action: str) -> None:
    """Change the rules for channels by one of ACTIONS; durable on return.

    ADD appends to a list, and raises MQRCCF_CHLAUTH_ALREADY_EXISTS for a map that is there. REMOVE
    takes the entries of a list out, or a map away, and raises MQRCCF_CHLAUTH_NOT_FOUND. REMOVEALL
    takes away all rules of that type for that profile.
    """
    core.check_running()
    with core.definitions_lock:
        rules = channel_rules(core)
        same = [r for r in rules if r.profile == rule.profile and r.type == rule.type]
        if action == REMOVEALL:
            _forget(core, same)
            return
        existing = next((r for r in same if _key_of(r) == _key_of(rule)), None)
        if rule.type in LISTS:
            _change_list(core, existing, rule, action)
        elif action == REMOVE:
            if existing is None:
                raise _missing(rule)
            _forget(core, [existing])
        elif existing is not None and action == ADD:
            said = f"a rule for {rule.profile} by {' '.join(filter(None, _key_of(rule)))} exists"
            raise mq_error(k.MQRCCF_CHLAUTH_ALREADY_EXISTS, said)
        else:
            _keep(core, rule)


def channel_rules(core: Core) -> list[ChannelRuleDefinition]:
    """Return all rules for channels; none of them is changed in its place."""
    found = named_of(core, CHLAUTH)
    return [rule for rule in found if isinstance(rule, ChannelRuleDefinition)]


def entries_of(text: str) -> list[str]:
    """Return the entries of a list."""
    return [entry for entry in text.split(",") if entry]


def named_rule(rule: ChannelRuleDefinition) -> ChannelRuleDefinition:
    """Return a rule under the name by which it is stored: all that it is found by."""
    rule.name = " ".join((rule.profile, str(rule.type), *map(repr, _key_of(rule))))
    return rule


def _change_list(
    core: Core, existing: ChannelRuleDefinition | None, rule: ChannelRuleDefinition, action: str
) -> None:
    keyword = LISTS[rule.type]
    given = entries_of(str(rule.attributes[keyword]))
    before = [] if existing is None else entries_of(str(existing.attributes[keyword]))
    if action == REMOVE:
        if existing is None or not set(given) <= set(before):
            raise _missing(rule)
        left = [entry for entry in before if entry not in given]
        if left:
            _keep(core, existing.altered({keyword: ",".join(left)}))
        else:
            _forget(core, [existing])
        return
    entries = given if action == REPLACE else list(dict.fromkeys([*before, *given]))
    _keep(core, rule.altered({keyword: ",".join(entries)}))


def _key_of(rule: ChannelRuleDefinition) -> tuple[str, ...]:
    return tuple(str(getattr(rule, field)) for field in _KEY)


def _missing(rule: ChannelRuleDefinition) -> MQError:
    return mq_error(k.MQRCCF_CHLAUTH_NOT_FOUND, f"there is no such rule for {rule.profile}")


def _keep(core: Core, rule: ChannelRuleDefinition) -> None:
    save(core, named_rule(rule), 0)
    with core.engine_lock:
        core.registry.named[CHLAUTH, rule.name] = rule


def _forget(core: Core, rules: Sequence[ChannelRuleDefinition]) -> None:
    for rule in rules:
        erase(core, rule)
        with core.engine_lock:
            del core.registry.named[CHLAUTH, rule.name]
