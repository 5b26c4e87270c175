"""The MQSC commands about who comes in: SET and DISPLAY CHLAUTH, REFRESH SECURITY."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mayfly.admin import (
    CHLAUTH,
    RULE_ACTIONS,
    RULE_MATCHES,
    Partner,
    Value,
    channel_rule_for,
    inquire_channel_rules,
    number_of,
    object_type,
    refresh_security,
    set_channel_rule,
)
from mayfly.admin.mqsc.display import selection
from mayfly.admin.mqsc.grammar import Command, Parameter, fold
from mayfly.admin.mqsc.outcome import Outcome, done, nothing_else, shown
from mayfly.admin.mqsc.values import attribute_value, distinct, one_value, unknown
from mayfly.mqi import command_constants as k
from mayfly.mqi.errors import MQError
from mayfly.verbs.mqsc_result import Message

if TYPE_CHECKING:
    from mayfly.admin import Engine

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


def set_rule(queue_manager: Engine, command: Command, kind: str) -> Outcome:
    """SET CHLAUTH(profile) TYPE(type) … [ACTION(ADD | REPLACE | REMOVE | REMOVEALL)]."""
    profile = one_value(command.object)
    given = distinct(command.parameters)
    action = _word(given.pop("ACTION", None), RULE_ACTIONS)
    values = {keyword: _value(parameter, kind) for keyword, parameter in given.items()}
    try:
        set_channel_rule(queue_manager, profile, values, action)
    except MQError as error:
        if error.reason not in _REFUSALS:
            raise
        return Outcome((Message(*_REFUSALS[error.reason], reason=error.reason),))
    return done("AMQ8877I", "IBM MQ channel authentication record set.")


def display_rules(queue_manager: Engine, command: Command, kind: str) -> Outcome:
    """DISPLAY CHLAUTH(profile) [TYPE()] [MATCH(GENERIC | EXACT | ALL | RUNCHECK)] [attributes]."""
    profile = one_value(command.object)
    given = distinct(command.parameters)
    match = _word(given.pop("MATCH", None), RULE_MATCHES)
    if match == "RUNCHECK":
        return _run_check(queue_manager, command, profile, given)
    rule_type = None
    if "TYPE" in given and given["TYPE"].values is not None:
        parameter = given.pop("TYPE")
        if fold(one_value(parameter)) != "ALL":
            rule_type = int(attribute_value(_ROWS["TYPE"], parameter))
    wanted = selection(given, (kind,), generic=True)
    found = inquire_channel_rules(queue_manager, profile, rule_type=rule_type, match=match)
    if not found:
        return _not_found()
    return shown(found, wanted, profile, _DETAILS)


def refresh(queue_manager: Engine, command: Command, kind: str) -> Outcome:
    """REFRESH SECURITY [TYPE(CONNAUTH | AUTHSERV | SSL)]."""
    given = distinct(command.parameters)
    security_type = given.pop("TYPE", None)
    if security_type is not None:
        _word(security_type, _SECURITY_TYPES)
    nothing_else(command, kind, given)
    refresh_security(queue_manager)
    return done("AMQ8560I", "IBM MQ security cache refreshed.")


def _run_check(
    queue_manager: Engine, command: Command, profile: str, given: dict[str, Parameter]
) -> Outcome:
    """Answer MATCH(RUNCHECK) ADDRESS() CLNTUSER() | QMNAME() [SSLPEER()] [SSLCERTI()]."""
    if "*" in profile:
        raise command.object.wrong("MATCH(RUNCHECK) is about one channel: give its name")
    asked = {}
    for keyword in ("ADDRESS", "CLNTUSER", "QMNAME", "SSLPEER", "SSLCERTI"):
        parameter = given.pop(keyword, None)
        asked[keyword] = "" if parameter is None else parameter_text(parameter)
    given.pop("ALL", None)
    nothing_else(command, "CHLAUTH MATCH(RUNCHECK)", given)
    if not asked["ADDRESS"] or not (asked["CLNTUSER"] or asked["QMNAME"]):
        said = "MATCH(RUNCHECK) needs ADDRESS, and CLNTUSER or QMNAME"
        raise command.object.wrong(said)
    partner = Partner(
        profile,
        asked["ADDRESS"],
        asked["CLNTUSER"],
        asked["QMNAME"],
        asked["SSLPEER"],
        asked["SSLCERTI"],
    )
    found = channel_rule_for(queue_manager, partner)
    if isinstance(found, str):
        return done("AMQ9783I", f"Channel will run using MCAUSER('{found}').")
    return shown([found], selection({}, (CHLAUTH,), generic=False), profile, _DETAILS)


def parameter_text(parameter: Parameter) -> str:
    """Return a value as it was typed: names of users keep their case."""
    one_value(parameter)
    assert parameter.values is not None
    return parameter.values[0].typed


def _value(parameter: Parameter, kind: str) -> Value:
    keyword = parameter.keyword
    if keyword not in _ROWS or keyword == "PROFILE":
        raise unknown(parameter, kind, _ROWS)
    if keyword in _LISTS:
        return ",".join(token.typed for token in parameter.values or ())
    if keyword in _AS_TYPED:
        return parameter_text(parameter)
    row = _ROWS[keyword]
    if row.is_text:
        return one_value(parameter)
    number = number_of(row, one_value(parameter))
    if number is None:
        # It says what would be right.
        return attribute_value(row, parameter)
    return number


def _word(parameter: Parameter | None, words: tuple[str, ...]) -> str:
    if parameter is None:
        return words[0]
    word = fold(one_value(parameter))
    if word not in words:
        raise parameter.wrong(f"{parameter} is not right: it must be {' or '.join(words)}")
    return word


def _not_found() -> Outcome:
    reason = k.MQRCCF_CHLAUTH_NOT_FOUND
    return Outcome((Message(*_REFUSALS[reason], reason=reason),))
