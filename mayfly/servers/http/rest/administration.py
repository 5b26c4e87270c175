"""Administration by IBM's REST API: MQSC commands as text or JSON, and the queue managers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.concurrency import run_in_threadpool

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.command_constants import MQRCCF_COMMAND_FAILED
from mayfly.servers.clients import manager_of
from mayfly.servers.http.connection import read_object
from mayfly.servers.http.problems import HttpError
from mayfly.servers.http.rest.calls import WRONG_VALUE, RestAnswer, RestCall, RestError, json_answer
from mayfly.servers.http.scripts import run_script
from mayfly.servers.http.service import AuthenticatedUser
from mayfly.servers.status import ServingState
from mayfly.verbs.facts import CommandResult, MqscMessage

_TEXT, _JSON = "runCommand", "runCommandJSON"
_KEYS: Final = ("type", "command", "qualifier", "name", "parameters", "responseParameters")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
#: An attribute, an operator and an operand: ``curdepth gt 0``.
_CONDITION: Final = re.compile(r"\s*(\w+)\s+(\w+)\s+(.*\S)\s*")
_WHERE = "WHERE"
#: Words without a value in parentheses, and the values that say whether they are meant.
_SWITCHES: Final = frozenset({"REPLACE", "PURGE", "ALL"})
_BOOLEANS: Final = {"true": True, "yes": True, "false": False, "no": False}
#: Words for states of which IBM's server has but these.
_RUNNING, _ENDED = "running", "endedUnexpectedly"


async def run_command(call: RestCall) -> RestAnswer:
    """Run MQSC commands; 200 even if a command fails.

    Each reply, and the whole answer, has a completion code and a reason code. Commands need the
    roles of :func:`run_script`; if one is missing for one command, no command of the script is run.
    Raises RestError (400) for a body that is no command.
    """
    authenticated = await call.admit_administrator()
    call.parameters(())
    asked = await read_object(call.request)
    for key in asked:
        if key not in _KEYS:
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{key!r} is none of {', '.join(_KEYS)}")
    kind = asked.get("type")
    if kind == _TEXT:
        script = _script_from_text(asked)
    elif kind == _JSON:
        script = _script_from_json(asked)
    else:
        raise _wrong("type", kind, f"{_TEXT} or {_JSON}")
    answer = await run_in_threadpool(_run, call, authenticated, script, as_text=kind == _TEXT)
    return json_answer(answer)


async def list_managers(call: RestCall) -> RestAnswer:
    """List the queue managers of this server, with their states (running or ended)."""
    await call.service.admit(call.request)
    call.parameters(())
    states = call.service.server_status.states()
    return json_answer({"qmgr": [_manager_json(name, state) for name, state in states.items()]})


async def show_manager(call: RestCall) -> RestAnswer:
    """Show one queue manager with its state; raises RestError (404) if it is not served here."""
    call.check_manager()
    await call.service.admit(call.request)
    call.parameters(())
    name = call.names[0]
    return json_answer({"qmgr": [_manager_json(name, call.service.server_status.states()[name])]})


def _manager_json(name: str, state: ServingState) -> dict[str, str]:
    """Return ``name`` and ``state`` of a queue manager for JSON.

    The state is one of IBM's two words: running or ended.
    """
    return {"name": name, "state": _RUNNING if state.is_live else _ENDED}


def _run(
    call: RestCall, authenticated: AuthenticatedUser, script: str, *, as_text: bool
) -> dict[str, Any]:
    """Check the roles for all commands of a script, run it, and return the answer for JSON.

    The keys are commandResponse, overallCompletionCode and overallReasonCode. With ``as_text`` the
    answer has the text of each message, otherwise the displayed objects as attributes. Runs in a
    thread. Raises MQRC_NOT_AUTHORIZED if a role is missing, RestError (400) for a script without a
    command.
    """
    manager = manager_of(call.service.managers, authenticated.applicant, "http")
    result = run_script(manager, authenticated, script)
    if not result.commands:
        raise _wrong("command", script, "a command")
    convert = _as_text if as_text else _as_values
    return {
        "commandResponse": [item for each in result.commands for item in convert(each)],
        "overallCompletionCode": c.MQCC_OK if result.ok else c.MQCC_FAILED,
        "overallReasonCode": rc.MQRC_NONE if result.ok else MQRCCF_COMMAND_FAILED,
    }


def _as_text(result: CommandResult) -> list[dict[str, Any]]:
    """Return the messages of a command for JSON, each with its two codes and its text.

    The keys are completionCode, reasonCode and text, a list of lines.
    """
    return [{**_codes(message), "text": str(message).splitlines()} for message in result.messages]


def _as_values(result: CommandResult) -> list[dict[str, Any]]:
    """Return the objects that a command displays for JSON.

    The keys are completionCode, reasonCode and parameters: attributes by keyword in lower case. If
    the command displays none, its messages are returned, as lines under the key message.
    """
    shown = [
        {
            "completionCode": c.MQCC_OK,
            "reasonCode": rc.MQRC_NONE,
            "parameters": {keyword.lower(): value for keyword, value in row.items()},
        }
        for row in result.rows
    ]
    return shown or [
        {**_codes(message), "message": str(message).splitlines()} for message in result.messages
    ]


def _codes(message: MqscMessage) -> dict[str, int]:
    """Return a message's codes by the names completionCode and reasonCode.

    A message that only informs has MQCC_OK and MQRC_NONE.
    """
    if message.is_information:
        return {"completionCode": c.MQCC_OK, "reasonCode": rc.MQRC_NONE}
    reason = message.reason or MQRCCF_COMMAND_FAILED
    return {"completionCode": c.MQCC_FAILED, "reasonCode": reason}


def _script_from_text(asked: Mapping[str, Any]) -> str:
    """Return the MQSC text in a request of type runCommand.

    Raises RestError (400) if it is missing or no text.
    """
    parameters = asked.get("parameters")
    command = parameters.get("command") if isinstance(parameters, dict) else None
    if not isinstance(command, str) or not command.strip():
        raise _wrong("parameters.command", command, "a command as text")
    return command


def _script_from_json(asked: Mapping[str, Any]) -> str:
    """Return the MQSC text for a command that a request has as JSON (runCommandJSON).

    All texts are quoted, so a value cannot become a command. Raises RestError (400) for a wrong
    field.
    """
    verb, qualifier = _keyword("command", asked.get("command")), ""
    if "qualifier" in asked:
        qualifier = _keyword("qualifier", asked["qualifier"])
    name = asked.get("name")
    if name is not None:
        qualifier += f"({_quoted('name', name)})"
    parameters, shown = asked.get("parameters", {}), asked.get("responseParameters", [])
    if not isinstance(parameters, dict):
        raise _wrong("parameters", parameters, "an object")
    if not isinstance(shown, list):
        raise _wrong("responseParameters", shown, "a list of words")
    given = [_parameter(_keyword("parameters", key), value) for key, value in parameters.items()]
    return " ".join(
        part
        for part in (
            verb,
            qualifier,
            *given,
            *(_keyword("responseParameters", word) for word in shown),
        )
        if part
    )


def _parameter(keyword: str, value: object) -> str:
    """Return one parameter as MQSC text: ``('MAXDEPTH', 5)`` -> ``MAXDEPTH(5)``.

    A switch such as REPLACE with ``no`` gives "". Raises RestError (400) for a wrong value.
    """
    if keyword in _SWITCHES:
        is_set = _BOOLEANS.get(str(value).lower()) if isinstance(value, (bool, str)) else None
        if is_set is None:
            raise _wrong(f"parameters.{keyword.lower()}", value, "yes or no")
        return keyword if is_set else ""
    if keyword == _WHERE:
        condition = _CONDITION.fullmatch(value) if isinstance(value, str) else None
        if condition is None:
            raise _wrong("parameters.where", value, "ATTRIBUTE OPERATOR VALUE")
        attribute, operator, operand = condition.groups()
        return f"{_WHERE}({attribute} {operator} {_quoted('parameters.where', operand)})"
    values = value if isinstance(value, list) else [value]
    spelled = ",".join(_quoted(f"parameters.{keyword.lower()}", each) for each in values)
    return f"{keyword}({spelled})"


def _quoted(field: str, value: object) -> str:
    """Return a value as MQSC text, in quotes if it is text.

    Raises RestError (400), with ``field``, for a text of several lines and for another type.
    """
    if isinstance(value, str):
        if not value.isprintable():
            # A line of MQSC ends a quoted text, and what follows would be a command.
            raise _wrong(field, value, "a text of one line")
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise _wrong(field, value, "a text or a whole number")


def _keyword(field: str, value: object) -> str:
    """Return a word of MQSC in capitals; raises RestError (400), with ``field``, otherwise."""
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise _wrong(field, value, "a word of MQSC")
    return value.upper()


def _wrong(field: str, value: object, what: str) -> RestError:
    """Return the RestError (400) for a field of the body.

    ``what`` describes the allowed values in its text.
    """
    text = f"{field} {value!r} is not {what}"
    return RestError(HTTPStatus.BAD_REQUEST, WRONG_VALUE, text)
