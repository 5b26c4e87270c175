"""MQSC commands, each a function of queue manager and command; and scripts of commands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from mayfly import admin
from mayfly.admin import (
    AUTHINFO,
    AUTHREC,
    CHANNEL,
    CHLAUTH,
    CHSTATUS,
    CLNTCONN,
    CONN,
    DEFINABLE,
    ENTAUTH,
    GROUP_STATUS,
    PROCESS,
    PUBSUB,
    QALIAS,
    QLOCAL,
    QMGR,
    QMODEL,
    QMSTATUS,
    QREMOTE,
    QSTATUS,
    QUEUE_KINDS,
    SETTING,
    SUB,
    TOPIC,
    TPSTATUS,
    AdminError,
    UnknownModel,
    WrongObject,
    alter_setting,
    fold,
    inquire,
    reset_setting,
    setting_value,
)
from mayfly.admin.mqsc import access, channels
from mayfly.admin.mqsc.display import (
    Reply,
    Selection,
    done,
    failure,
    not_found,
    nothing_else,
    selection,
    shown,
)
from mayfly.admin.mqsc.grammar import (
    GENERIC,
    Command,
    MqscSyntaxError,
    Parameter,
    Statement,
    distinct,
    nearest,
    no_value,
    object_name,
    one_value,
    parse,
    settings,
    statements,
    switch,
)
from mayfly.mqi.errors import MQError
from mayfly.verbs.facts import SYNTAX_ERROR, CommandResult, MqscMessage, MqscResult

if TYPE_CHECKING:
    from mayfly.admin import Engine

_QUEUE: Final = "QUEUE"
_ALL_TYPES: Final = "ALL"
_TOPIC_STRING: Final = "TOPICSTR"
_RETAINED: Final = "RETAINED"
_SECURITY: Final = "SECURITY"
_VERB_SYNONYMS = {
    "DEF": "DEFINE",
    "ALT": "ALTER",
    "DIS": "DISPLAY",
    "DISP": "DISPLAY",
    "STA": "START",
    "REF": "REFRESH",
}
_OBJECT_SYNONYMS = {
    "QL": QLOCAL,
    "QA": QALIAS,
    "QM": QMODEL,
    "QR": QREMOTE,
    "PRO": PROCESS,
    "CHL": CHANNEL,
    "CHS": CHSTATUS,
    "Q": _QUEUE,
    "QS": QSTATUS,
    "TPS": TPSTATUS,
}


_OF_MANAGER = {
    QMGR: ("AMQ8408I", "Display Queue Manager details."),
    QMSTATUS: ("AMQ8705I", "Display Queue Manager Status Details."),
    PUBSUB: ("AMQ8723I", "Display pub/sub status details."),
    GROUP_STATUS: ("CSQM201I", "Display queue-sharing group details."),
}
#: A channel of a client is defined as CHANNEL … CHLTYPE(CLNTCONN).
_DEFINED = tuple(kind for kind in DEFINABLE if kind != CLNTCONN)
_SETTING_DETAILS = ("MFY1001I", "Display setting details.")
_SETTING_CHANGED = ("MFY1002I", "Setting changed.")
_END = "END"
_NUMBER_WIDTH = 6
_SMALL = {0: "No", 1: "One"}


_Action: TypeAlias = Callable[["Engine", Command, str], Reply]


class _Replies(NamedTuple):
    """Messages of runmqsc for an object type; ``details`` is the heading of DISPLAY."""

    created: tuple[str, str]
    changed: tuple[str, str]
    deleted: tuple[str, str]
    details: tuple[str, str]


def _replies(noun: str, codes: tuple[str, str, str], details: tuple[str, str]) -> _Replies:
    """Return the messages for an object type, called ``noun`` in their texts.

    ``codes`` are for created, changed and deleted: ``'AMQ8006I'`` -> ``'IBM MQ queue created.'``.
    """
    words = "created", "changed", "deleted"
    text = [(code, f"IBM MQ {noun} {word}.") for code, word in zip(codes, words, strict=True)]
    return _Replies(text[0], text[1], text[2], details)


_REPLIES: dict[str, _Replies] = {
    **dict.fromkeys(
        QUEUE_KINDS,
        _replies(
            "queue", ("AMQ8006I", "AMQ8008I", "AMQ8007I"), ("AMQ8409I", "Display Queue details.")
        ),
    ),
    TOPIC: _replies(
        "topic", ("AMQ8690I", "AMQ8691I", "AMQ8692I"), ("AMQ8633I", "Display topic details.")
    ),
    SUB: _replies(
        "subscription",
        ("AMQ8094I", "AMQ8095I", "AMQ8091I"),
        ("AMQ8096I", "IBM MQ subscription inquired."),
    ),
    PROCESS: _replies(
        "process", ("AMQ8010I", "AMQ8012I", "AMQ8011I"), ("AMQ8407I", "Display Process details.")
    ),
    **dict.fromkeys(
        (CHANNEL, CLNTCONN),
        _replies(
            "channel",
            ("AMQ8014I", "AMQ8016I", "AMQ8015I"),
            ("AMQ8414I", "Display Channel details."),
        ),
    ),
    AUTHINFO: _replies(
        "authentication information object",
        ("AMQ8563I", "AMQ8567I", "AMQ8564I"),
        ("AMQ8566I", "Display authentication information details."),
    ),
}


def head_of(command: Command) -> tuple[str, str]:
    """Return verb and object type of a command, without abbreviations.

    Example: ``DIS QL(A)`` -> ``('DISPLAY', 'QLOCAL')``. An unknown word is returned unchanged.
    """
    verb, kind = command.verb.keyword, command.object.keyword
    return _VERB_SYNONYMS.get(verb, verb), _OBJECT_SYNONYMS.get(kind, kind)


def execute(queue_manager: Engine, command: Command) -> Reply:
    """Run a command and return its reply.

    Raises MqscSyntaxError for a wrong command, which then changes nothing. An error of the engine
    is a message in the reply, not an exception.
    """
    verb, kind = head_of(command)
    actions = _ACTIONS.get(verb)
    if actions is None:
        raise command.verb.wrong(f"{verb} is not a command here" + nearest(verb, _ACTIONS))
    action = actions.get(kind)
    if action is None:
        raise command.object.wrong(f"{verb} knows {', '.join(actions)}, not {kind}")
    if kind in (QMGR, QMSTATUS):
        no_value(command.object)
    try:
        return action(queue_manager, command, kind)
    except AdminError as error:
        raise _placed(error, command) from error
    except UnknownModel as error:
        return not_found(error.name)
    except MQError as error:
        return Reply((failure(error, command.object),))


def _placed(error: AdminError, command: Command) -> MqscSyntaxError:
    """Return an AdminError as a MqscSyntaxError at the parameter of its attribute.

    Without such a parameter the position is that of the command's object.
    """
    given = {} if isinstance(error, WrongObject) else distinct(command.parameters)
    return given.get(error.attribute, command.object).wrong(error.detail)


def _name(parameter: Parameter, kind: str) -> str:
    """Return the name of one object, in parentheses behind the object type.

    Raises MqscSyntaxError for no name, several, or an invalid name. Any text is valid for a
    subscription.
    """
    if kind == SUB:
        return one_value(parameter)
    is_channel = kind in (CHANNEL, CLNTCONN)
    return channels.name_of(parameter) if is_channel else object_name(parameter)


def _define(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DEFINE type(name) [attributes] [LIKE(name)] [REPLACE | NOREPLACE]; return its reply.

    Raises MqscSyntaxError, AdminError, UnknownModel for an unknown LIKE, and MQError for an object
    that exists without REPLACE.
    """
    name = _name(command.object, kind)
    given = distinct(command.parameters)
    kind = channels.kind_of(given, kind)
    replace = switch(given, "REPLACE")
    model = given.pop("LIKE", None)
    like = None if model is None else _name(model, kind)
    attributes = settings(given, kind)
    admin.define(queue_manager, kind, name, attributes, like=like, replace=replace)
    return done(*_REPLIES[kind].created)


def _alter(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run ALTER type(name) [attributes]; return its reply.

    Raises MqscSyntaxError, AdminError, and MQError for an unknown object.
    """
    name = _name(command.object, kind)
    given = distinct(command.parameters)
    kind = channels.kind_of(given, kind)
    admin.alter(queue_manager, kind, name, settings(given, kind))
    return done(*_REPLIES[kind].changed)


def _alter_manager(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run ALTER QMGR [attributes]; return its reply AMQ8005I.

    Raises MqscSyntaxError, AdminError.
    """
    attributes = settings(distinct(command.parameters), kind)
    admin.alter(queue_manager, kind, queue_manager.name, attributes)
    return done("AMQ8005I", "IBM MQ queue manager changed.")


def _delete(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DELETE type(name); return its reply. PURGE also deletes the messages of a local queue.

    Raises MqscSyntaxError, and MQError for an unknown or open object, or messages without PURGE.
    """
    name = _name(command.object, kind)
    given = distinct(command.parameters)
    purge = kind == QLOCAL and switch(given, "PURGE")
    kind = channels.kind_to_delete(given, kind)
    nothing_else(command, kind, given)
    admin.delete(queue_manager, kind, name, purge=purge)
    return done(*_REPLIES[kind].deleted)


def _clear(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run CLEAR QLOCAL(name), which removes all messages; return its reply AMQ8022I.

    Raises MqscSyntaxError, and MQError for an unknown or open queue.
    """
    name = object_name(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    admin.clear_queue(queue_manager, name)
    return done("AMQ8022I", "IBM MQ queue cleared.")


def _clear_topic(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run CLEAR TOPICSTR(topic string) CLRTYPE(RETAINED); return its reply AMQ8684I.

    Removes the retained publication, if any. Raises MqscSyntaxError, and MQRC_TOPIC_STRING_ERROR.
    """
    topic = one_value(command.object)
    given = distinct(command.parameters)
    clear_type = given.pop("CLRTYPE", None)
    if clear_type is None or fold(one_value(clear_type)) != _RETAINED:
        raise command.object.wrong(f"CLEAR {kind} needs CLRTYPE({_RETAINED})")
    nothing_else(command, kind, given)
    admin.clear_topic(queue_manager, topic)
    return done("AMQ8684I", "Topic string cleared.")


def _ping(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run PING QMGR; return its reply AMQ8415I.

    Raises MQError if the queue manager has stopped, MqscSyntaxError.
    """
    nothing_else(command, kind, distinct(command.parameters))
    queue_manager.check_running()
    return done("AMQ8415I", "Ping IBM MQ Queue Manager command complete.")


def _display(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DISPLAY type(generic) [attributes] [WHERE()], for objects that need no other function.

    Returns a message for each object, AMQ8147E for none. Raises MqscSyntaxError.
    """
    name = command.object
    pattern = one_value(name) if kind == SUB else object_name(name, generic=True)
    given = distinct(command.parameters)
    kinds = _types(given) if kind == _QUEUE else (kind,)
    wanted = selection(given, kinds, generic=pattern.endswith(GENERIC))
    found = admin.inquire(queue_manager, kinds, pattern)
    return shown(found, wanted, pattern, _REPLIES[kinds[0]].details)


def _types(given: dict[str, Parameter]) -> tuple[str, ...]:
    """Remove TYPE(type) from ``given``; return the queue types that DISPLAY QUEUE shows.

    Without TYPE, and for TYPE(ALL), these are all queue types. Raises MqscSyntaxError for another
    word.
    """
    if "TYPE" not in given or given["TYPE"].values is None:
        return QUEUE_KINDS
    parameter = given.pop("TYPE")
    kind = fold(one_value(parameter))
    kind = _OBJECT_SYNONYMS.get(kind, kind)
    if kind not in (*QUEUE_KINDS, _ALL_TYPES):
        choices = " or ".join((*QUEUE_KINDS, _ALL_TYPES))
        raise parameter.wrong(f"{parameter} is not right: it must be {choices}")
    return QUEUE_KINDS if kind == _ALL_TYPES else (kind,)


def _display_status(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DISPLAY QSTATUS(generic) [TYPE(QUEUE)] [attributes] [WHERE()].

    Returns a message for each local queue, AMQ8147E for none. Raises MqscSyntaxError.
    """
    pattern = object_name(command.object, generic=True)
    given = distinct(command.parameters)
    view = given.get("TYPE")
    if view is not None and view.values is not None:
        if fold(one_value(view)) != _QUEUE:
            raise view.wrong(f"{view} is not right: it must be {_QUEUE}")
        del given["TYPE"]
    wanted = selection(given, (kind,), generic=pattern.endswith(GENERIC))
    found = admin.inquire(queue_manager, (kind,), pattern)
    return shown(found, wanted, pattern, ("AMQ8450I", "Display queue status details."))


def _display_topic_status(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DISPLAY TPSTATUS(topic string): the attribute values in force there, none ASPARENT.

    Returns one message. Raises MqscSyntaxError, MQRC_TOPIC_STRING_ERROR.
    """
    topic = one_value(command.object)
    wanted = selection(distinct(command.parameters), (kind,), generic=False)
    found = admin.inquire(queue_manager, (kind,), topic)
    return shown(found, wanted, topic, ("AMQ8754I", "Display topic status details."))


def _display_manager(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DISPLAY QMGR [attributes] or DISPLAY QMSTATUS [attributes]; return one message.

    Raises MqscSyntaxError, also for WHERE.
    """
    given = distinct(command.parameters)
    if "WHERE" in given:
        raise given["WHERE"].wrong(f"WHERE is not a keyword of DISPLAY {kind}")
    wanted = selection(given, (kind,), generic=False)
    found = admin.inquire(queue_manager, (kind,), queue_manager.name)
    return shown(found, wanted, queue_manager.name, _OF_MANAGER[kind])


def _display_all(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DISPLAY PUBSUB (neighbours in a hierarchy) or DISPLAY GROUP (queue-sharing group).

    Returns a message for each queue manager. Raises MqscSyntaxError for any parameter, and MQError
    for DISPLAY GROUP without a group.
    """
    no_value(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    found = admin.inquire(queue_manager, (kind,), queue_manager.name)
    return shown(found, Selection(None, None), queue_manager.name, _OF_MANAGER[kind])


def _display_setting(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DISPLAY SETTING(generic) [VALUE] [DEFAULT] [WHERE()]; both attributes by default.

    Returns a message for each setting, AMQ8147E for none. Raises MqscSyntaxError.
    """
    pattern = one_value(command.object)
    # Also for generic names, because a name alone has no information.
    wanted = selection(distinct(command.parameters), (kind,), generic=False)
    return shown(inquire(queue_manager, (kind,), pattern), wanted, pattern, _SETTING_DETAILS)


def _alter_setting(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run ALTER SETTING(name) VALUE(value), durable and in force for later calls.

    Returns the reply MFY1002I. Raises MqscSyntaxError, AdminError for a wrong value,
    MQRC_UNKNOWN_OBJECT_NAME for an unknown setting.
    """
    name = one_value(command.object)
    given = distinct(command.parameters)
    value = given.pop("VALUE", None)
    if value is None:
        raise command.object.wrong("VALUE is missing")
    nothing_else(command, kind, given)
    alter_setting(queue_manager, name, setting_value(name, one_value(value)))
    return done(*_SETTING_CHANGED)


def _reset_setting(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run RESET SETTING(name), which restores the default; return the reply MFY1002I.

    Raises MqscSyntaxError, MQRC_UNKNOWN_OBJECT_NAME for an unknown setting.
    """
    name = one_value(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    reset_setting(queue_manager, name)
    return done(*_SETTING_CHANGED)


_ACTIONS: dict[str, dict[str, _Action]] = {
    "DEFINE": dict.fromkeys(_DEFINED, _define),
    "ALTER": {
        **dict.fromkeys(_DEFINED, _alter),
        QMGR: _alter_manager,
        SETTING: _alter_setting,
    },
    "DISPLAY": {
        **dict.fromkeys((*QUEUE_KINDS, _QUEUE), _display),
        QSTATUS: _display_status,
        **dict.fromkeys((PROCESS, AUTHINFO), _display),
        CHANNEL: channels.display,
        CHSTATUS: channels.display_status,
        CONN: channels.display_connections,
        TOPIC: _display,
        TPSTATUS: _display_topic_status,
        PUBSUB: _display_all,
        GROUP_STATUS: _display_all,
        SUB: _display,
        QMGR: _display_manager,
        QMSTATUS: _display_manager,
        AUTHREC: access.display_records,
        ENTAUTH: access.display_entity,
        CHLAUTH: access.display_rules,
        SETTING: _display_setting,
    },
    "DELETE": {**dict.fromkeys(_DEFINED, _delete), AUTHREC: access.delete_record},
    "SET": {AUTHREC: access.set_record, CHLAUTH: access.set_rule},
    "REFRESH": {_SECURITY: access.refresh},
    "CLEAR": {QLOCAL: _clear, _TOPIC_STRING: _clear_topic},
    "PING": {QMGR: _ping, CHANNEL: channels.ping},
    "START": {CHANNEL: channels.start},
    "STOP": {CHANNEL: channels.stop, CONN: channels.end_connection},
    "RESET": {CHANNEL: channels.reset, SETTING: _reset_setting},
    "RESOLVE": {CHANNEL: channels.resolve},
}


def run_script(queue_manager: Engine, text: str) -> MqscResult:
    """Run a script of MQSC commands; return their replies and the transcript of runmqsc.

    A wrong command changes nothing, and the next one runs. END ends the script. No command raises
    an exception.
    """
    transcript = [f"Starting MQSC for queue manager {queue_manager.name}.\n"]
    commands: list[CommandResult] = []
    for statement in statements(text):
        if not statement.is_command:
            transcript.append(_echo(statement.lines))
            continue
        transcript.append(_echo(statement.lines, len(commands) + 1))
        if _is_end(statement):
            break
        outcome = _run(queue_manager, statement)
        transcript += map(str, outcome.messages)
        commands.append(
            CommandResult(len(commands) + 1, statement.text, outcome.messages, outcome.rows)
        )
    transcript.append(_tail(commands))
    return MqscResult("\n".join(transcript) + "\n", tuple(commands))


def heads_of(text: str) -> set[tuple[str, str]]:
    """Return verb and object type of every command that a script would run, without abbreviations.

    Runs nothing. Commands with a syntax error, and those after END, are left out.
    """
    found: set[tuple[str, str]] = set()
    for statement in statements(text):
        if statement.is_command:
            if _is_end(statement):
                break
            with contextlib.suppress(MqscSyntaxError):
                found.add(head_of(parse(statement)))
    return found


def _is_end(statement: Statement) -> bool:
    """Return True if a statement is the command END, in any case, with or without ``;``."""
    return fold(statement.text).rstrip("; ") == _END


def _run(queue_manager: Engine, statement: Statement) -> Reply:
    """Run the command in a statement; a syntax error becomes a message in the reply."""
    try:
        return execute(queue_manager, parse(statement))
    except MqscSyntaxError as error:
        return Reply((_syntax_error(statement, error),))


def _syntax_error(statement: Statement, error: MqscSyntaxError) -> MqscMessage:
    """Return the message for a syntax error, with line and column in the script from 1."""
    line, column = statement.place(error.start)
    return MqscMessage(
        SYNTAX_ERROR,
        "Syntax error detected at or near end of command segment below:-",
        f"{statement.text[: error.end].rstrip()}\nline {line}, column {column}: {error}",
        line=line,
        column=column,
    )


def _echo(lines: tuple[str, ...], number: int | None = None) -> str:
    """Return the lines of a statement as the transcript of runmqsc repeats them.

    The number of the command is before the first line; blanks replace it for None.
    """
    numbered = [f"{'' if number is None else number:>{_NUMBER_WIDTH}} : {lines[0]}"]
    numbered += [f"{'':>{_NUMBER_WIDTH}} : {line}" for line in lines[1:]]
    return "\n".join(line.rstrip() for line in numbered)


def _tail(commands: list[CommandResult]) -> str:
    """Return the end of a transcript: the counts of commands read, wrong, and failed."""
    wrong = sum(not command.is_valid for command in commands)
    failed = sum(command.is_valid and not command.ok for command in commands)
    processed = "All valid MQSC commands were processed."
    if failed:
        processed = f"{_counted(failed, 'valid MQSC command')} could not be processed."
    return "\n".join(
        (
            "",
            f"{_counted(len(commands), 'MQSC command')} read.",
            f"{_counted(wrong, 'command')} {'has' if wrong == 1 else 'have'} a syntax error.",
            processed,
        )
    )


def _counted(count: int, noun: str) -> str:
    """Return a count with its noun, as ``'No commands'``, ``'One command'``, ``'2 commands'``."""
    return f"{_SMALL.get(count, count)} {noun}{'' if count == 1 else 's'}"
