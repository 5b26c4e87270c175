"""Rules for channels (CHLAUTH): which of several counts for a partner, and for a user.

Of the rules that match, the most special one counts. First the name of the channel decides: a
character says more than ``*``. Between rules for one name the order is: by the subject of a
certificate, by its issuer, by user or queue manager, by address, by host name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from mayfly.admin.security import addresses
from mayfly.admin.security.host_names import is_host_name
from mayfly.engine.face.admission import (
    CHLAUTH,
    ChannelRuleDefinition,
    attributes_of,
    entries_of,
)
from mayfly.mqi import command_constants as k
from mayfly.mqi import distinguished_names

ADMINISTRATORS: Final = "*MQADMIN"
_MAPS: Final = frozenset(
    (k.MQCAUT_SSLPEERMAP, k.MQCAUT_ADDRESSMAP, k.MQCAUT_USERMAP, k.MQCAUT_QMGRMAP)
)


class Partner(NamedTuple):
    """The facts about a partner before its password, by which a rule finds it.

    ``user`` is the user that a client names, ``manager`` the queue manager that a message channel
    comes from; subject and issuer are those of a certificate. ``host_names`` are those of the
    address.
    """

    channel: str
    address: str
    user: str = ""
    manager: str = ""
    subject: str = ""
    issuer: str = ""
    host_names: tuple[str, ...] = ()


def blocking_address(
    rules: Iterable[ChannelRuleDefinition], address: str
) -> ChannelRuleDefinition | None:
    """Return the rule that keeps an address from every channel."""
    lists = (rule for rule in rules if rule.type == k.MQCAUT_BLOCKADDR)
    return next((rule for rule in lists if _is_blocked(address, rule)), None)


def mapping(
    rules: Iterable[ChannelRuleDefinition], partner: Partner
) -> ChannelRuleDefinition | None:
    """Return the map that counts for a partner; None when no map is for it."""
    found = [rule for rule in rules if rule.type in _MAPS and _is_for(rule, partner)]
    return min(found, key=_specificity, default=None)


def names_users(rules: Iterable[ChannelRuleDefinition], partner: Partner) -> bool:
    """Return True if the users of a partner's channel and address are mapped by their names."""
    return any(
        rule.type == k.MQCAUT_USERMAP
        and has_name(partner.channel, rule.profile)
        and _is_from(partner, rule.address)
        for rule in rules
    )


def blocking_user(
    rules: Iterable[ChannelRuleDefinition], channel: str, user: str, *, is_administrator: bool
) -> ChannelRuleDefinition | None:
    """Return the rule that keeps a user from a channel: the list for the most special name."""
    lists = [r for r in rules if r.type == k.MQCAUT_BLOCKUSER and has_name(channel, r.profile)]
    rule = min(lists, key=_specificity, default=None)
    if rule is None:
        return None
    entries = entries_of(rule.userlist)
    is_blocked = user in entries or (is_administrator and ADMINISTRATORS in entries)
    return rule if is_blocked else None


def spelled(rule: ChannelRuleDefinition) -> str:
    """Return a rule as a log names it: its channels, its type, and by what it is found."""
    row = attributes_of(CHLAUTH)["TYPE"]
    word = next(word for word, number in row.words if number == rule.type)
    given = {
        "SSLPEER": rule.sslpeer,
        "CLNTUSER": rule.clntuser,
        "QMNAME": rule.qmname,
        "ADDRESS": rule.address,
    }
    found = [f"{keyword}({value})" for keyword, value in given.items() if value]
    return " ".join((f"CHLAUTH({rule.profile}) TYPE({word})", *found))


def has_name(name: str, pattern: str) -> bool:
    """Return True if a pattern matches a name; ``*`` stands for any characters."""
    return _compiled(pattern).fullmatch(name) is not None


@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def _is_blocked(address: str, rule: ChannelRuleDefinition) -> bool:
    return any(addresses.is_matched(address, entry) for entry in entries_of(rule.addrlist))


def _is_for(rule: ChannelRuleDefinition, partner: Partner) -> bool:
    if not has_name(partner.channel, rule.profile):
        return False
    if not _is_from(partner, rule.address):
        return False
    if rule.type == k.MQCAUT_SSLPEERMAP:
        return (
            bool(partner.subject)
            and distinguished_names.is_matched(partner.subject, rule.sslpeer)
            and distinguished_names.is_matched(partner.issuer, rule.sslcerti)
        )
    if rule.type == k.MQCAUT_USERMAP:
        return bool(partner.user) and has_name(partner.user, rule.clntuser)
    if rule.type == k.MQCAUT_QMGRMAP:
        return bool(partner.manager) and has_name(partner.manager, rule.qmname)
    return True


def _specificity(rule: ChannelRuleDefinition) -> tuple[object, ...]:
    return (
        _of_name(rule.profile),
        _of_distinguished(rule.sslpeer),
        _of_distinguished(rule.sslcerti),
        _of_name(rule.clntuser or rule.qmname or "*"),
        _of_address(rule.address),
    )


def _is_from(partner: Partner, pattern: str) -> bool:
    if not is_host_name(pattern):
        return addresses.is_matched(partner.address, pattern)
    wanted = pattern.lower()
    return any(has_name(name.lower(), wanted) for name in partner.host_names)


def _of_address(pattern: str) -> tuple[int, ...]:
    """Return a key by which an address goes before a host name, and that before any address."""
    if pattern in ("", addresses.ANY):
        return (2,)
    if is_host_name(pattern):
        return (1, *_of_name(pattern))
    return (0, *addresses.specificity(pattern))


def _of_name(pattern: str) -> tuple[int, ...]:
    """Return a key by which a character goes before ``*``, and the end of a name as well."""
    return (*(character == "*" for character in pattern), 0)


def _of_distinguished(pattern: str) -> tuple[int, int]:
    """Return a key by which the pattern with more attributes, and fewer ``*``, goes first."""
    if not pattern:
        return 1, 0
    pairs = distinguished_names.attributes_of(pattern)
    return -len(pairs), sum("*" in value for _key, value in pairs)
