"""MQSC commands, each a function of queue manager and command; and scripts of commands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from mayfly import admin
from mayfly.admin import (
    APSTATUS,
    APSTATUS_LOCAL,
    APSTATUS_QMGR,
    AUTHINFO,
    AUTHREC,
    AUTHSERV,
    CHANNEL,
    CHLAUTH,
    CHSTATUS,
    CLNTCONN,
    COMMINFO,
    CONN,
    DEFINABLE,
    ENTAUTH,
    GROUP_STATUS,
    LISTENER,
    NAMELIST,
    POLICY,
    PROCESS,
    PUBSUB,
    QALIAS,
    QLOCAL,
    QMGR,
    QMODEL,
    QMSTATUS,
    QREMOTE,
    QSTATS,
    QSTATUS,
    QSTATUS_HANDLE,
    QUEUE_KINDS,
    SBSTATUS,
    SECURITY,
    SERVICE,
    SETTING,
    STGCLASS,
    SUB,
    TOPIC,
    TPSTATUS,
    TPSTATUS_PUB,
    TPSTATUS_SUB,
    AdminError,
    UnknownLikeObject,
    Value,
    WrongObject,
    alter_setting,
    fold,
    reset_setting,
    setting_value,
)
from mayfly.admin.events import Origin, commanded_by, report_mqsc
from mayfly.admin.mqsc import access, status
from mayfly.admin.mqsc.display import (
    Reply,
    WithoutEffect,
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
    word_of,
)
from mayfly.admin.security.roles import Role
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.event_constants import MQEVO_CONSOLE
from mayfly.verbs.facts import SYNTAX_ERROR, WITHOUT_EFFECT, CommandResult, MqscMessage, MqscResult

if TYPE_CHECKING:
    from mayfly.admin import Engine


#: The names of the objects in replies.
_NOUNS: Final[Mapping[str, str]] = {
    LISTENER: "listener",
    SERVICE: "service",
    NAMELIST: "namelist",
    COMMINFO: "communication information object",
    STGCLASS: "storage class",
    POLICY: "security policy",
}
_ADD, _REPLACE, _REMOVE = "ADD", "REPLACE", "REMOVE"
_TOLERATE: Final = "TOLERATE"
#: Lists of a policy, which a command may give in several parameters.
_LISTS: Final = ("SIGNER", "RECIP")
_NAMES_SHOWN: Final = 3
#: Attributes by which START and STOP LISTENER may name a listener that is not defined.
_PLACE: Final = ("TRPTYPE", "PORT", "IPADDR", "LUNAME", "INDISP")
_QUEUE: Final = "QUEUE"
_ALL_TYPES: Final = "ALL"
_TOPIC_STRING: Final = "TOPICSTR"
_RETAINED: Final = "RETAINED"
#: The kinds of records that DISPLAY shows, by its TYPE.
_KINDS_BY_TYPE: Final = {
    APSTATUS: {"APPL": APSTATUS, "QMGR": APSTATUS_QMGR, "LOCAL": APSTATUS_LOCAL},
    QSTATUS: {"QUEUE": QSTATUS, "HANDLE": QSTATUS_HANDLE},
    TPSTATUS: {"TOPIC": TPSTATUS, "SUB": TPSTATUS_SUB, "PUB": TPSTATUS_PUB},
}
#: Objects that DISPLAY never finds here: no listener or service runs, and there are no clusters.
_NEVER_HERE: Final = ("LSSTATUS", "SVSTATUS", "CLUSQMGR", "QCLUSTER", "TCLUSTER")
#: Whether a command about an object that is not there succeeds.
_IGNSTATE: Final = "IGNSTATE"
_WITH_IGNSTATE: Final = ("DELETE", "START", "STOP")
_MISSING: Final = (rc.MQRC_UNKNOWN_OBJECT_NAME, rc.MQRC_NO_SUBSCRIPTION)
#: The keyword that stands for the name of a subscription, for these verbs.
_SUBID: Final = "SUBID"
_BY_ID: Final = ("ALTER", "DELETE", "DISPLAY")
#: A flag of DEFINE and ALTER: objects that are open are changed here in any case.
_FORCE: Final = "FORCE"
_VERB_SYNONYMS = {
    "DEF": "DEFINE",
    "ALT": "ALTER",
    "DIS": "DISPLAY",
    "DISP": "DISPLAY",
    "STA": "START",
    "REF": "REFRESH",
    "STO": "STOP",
    "DELE": "DELETE",
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
    "QC": "QCLUSTER",
    "TCL": "TCLUSTER",
    "NL": NAMELIST,
    "LSTR": LISTENER,
    "TPS": TPSTATUS,
    "SBS": SBSTATUS,
    "APS": APSTATUS,
}
#: Object types that take no name: there is one object, or one list, of the queue manager.
_OF_MANAGER = (QMGR, QMSTATUS, PUBSUB, GROUP_STATUS, SECURITY, AUTHSERV)
#: Object types of which DISPLAY takes no parameters, and shows everything.
_WITHOUT_PARAMETERS = (GROUP_STATUS,)
#: Object types whose names are any text.
_NAMED_BY_TEXT = (SUB, SBSTATUS, TPSTATUS, SETTING)
#: Object types of which DISPLAY shows all attributes also for a generic name: a name alone would
#: have no information.
_SHOWN_WHOLE = (QSTATUS_HANDLE, TPSTATUS, SBSTATUS, APSTATUS, SETTING)
#: The heading of each object in the reply to DISPLAY.
_HEADINGS = {
    **dict.fromkeys((*QUEUE_KINDS, _QUEUE), ("AMQ8409I", "Display Queue details.")),
    QSTATUS: ("AMQ8450I", "Display queue status details."),
    PROCESS: ("AMQ8407I", "Display Process details."),
    AUTHINFO: ("AMQ8566I", "Display authentication information details."),
    TOPIC: ("AMQ8633I", "Display topic details."),
    TPSTATUS: ("AMQ8754I", "Display topic status details."),
    SBSTATUS: ("AMQ8099I", "IBM MQ subscription status inquired."),
    APSTATUS: ("AMQ8932I", "Display application status details."),
    SECURITY: ("MFY1009I", "Display security details."),
    AUTHSERV: ("MFY1017I", "Display authorization service details."),
    GROUP_STATUS: ("CSQM201I", "Display queue-sharing group details."),
    SUB: ("AMQ8096I", "IBM MQ subscription inquired."),
    QMGR: ("AMQ8408I", "Display Queue Manager details."),
    QMSTATUS: ("AMQ8705I", "Display Queue Manager Status Details."),
    SETTING: ("MFY1001I", "Display setting details."),
    **{kind: ("MFY1014I", f"Display {noun} details.") for kind, noun in _NOUNS.items()},
    LISTENER: ("AMQ8630I", "Display listener information details."),
}
#: A channel of a client is defined as CHANNEL … CHLTYPE(CLNTCONN).
_DEFINED = tuple(kind for kind in DEFINABLE if kind != CLNTCONN)
_SETTING_CHANGED = ("MFY1002I", "Setting changed.")
#: The verbs of users who look, and the commands of those who operate; all others administer.
_LOOKING: Final = frozenset({"DISPLAY", "PING"})
_OPERATING: Final = frozenset(
    {(verb, CHANNEL) for verb in ("START", "STOP", "RESET", "RESOLVE")}
    | {(verb, kind) for verb in ("START", "STOP") for kind in (LISTENER, SERVICE)}
    | {("STOP", CONN), ("RESET", QSTATS)}
)
#: Commands that end a script, and a conversation.
ENDS: Final = ("END", "EXIT", "QUIT")
_NUMBER_WIDTH = 6
_SMALL = {0: "No", 1: "One"}
_Action: TypeAlias = Callable[["Engine", Command, str], Reply]


def _start_or_stop_kept(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run START or STOP of a LISTENER or SERVICE, which does nothing; the reply says why.

    Raises MQRC_UNKNOWN_OBJECT_NAME for one that is not defined, MqscSyntaxError. ``kind`` is
    LISTENER or SERVICE.
    """
    name = "" if command.object.values is None else object_name(command.object)
    remaining = distinct(command.parameters)
    if kind == LISTENER and not name:
        for keyword in _PLACE:
            remaining.pop(keyword, None)
    nothing_else(command, kind, remaining)
    is_standard = (kind, name) in admin.STANDARD_OBJECTS
    if name and not is_standard and not admin.inquire(queue_manager, (kind,), name):
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{kind} {name} is not defined")
    if kind == LISTENER:
        why = "the ports of mayfly serve are settings of the server"
    else:
        why = "programs beside the server are started by the system"
    return done("MFY1015I", f"Nothing was done: a {_NOUNS[kind]} is kept only; {why}.")


def _set_policy(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run SET POLICY(name) [attributes] [ACTION(REPLACE | ADD | REMOVE)]; return its reply.

    ADD adds SIGNER and RECIP to those of the policy, REMOVE deletes it. Raises MqscSyntaxError, and
    MQRC_UNKNOWN_OBJECT_NAME for ADD or REMOVE without a policy. ``kind`` is POLICY.
    """
    name = object_name(command.object)
    remaining = distinct(_joined(command.parameters))
    action = word_of(remaining.pop("ACTION", None), (_REPLACE, _ADD, _REMOVE))
    if action == _REMOVE:
        admin.delete(queue_manager, kind, name)
        return done("MFY1013I", f"IBM MQ {_NOUNS[kind]} deleted.")
    tolerates = _tolerates(remaining)
    attributes = {**settings(remaining, kind), **tolerates}
    if action == _REPLACE:
        known = admin.object_type(kind).attributes
        defaults = {keyword: row.default for keyword, row in known.items()}
        admin.define(queue_manager, kind, name, {**defaults, **attributes}, replace=True)
    else:
        found = [one for one in admin.inquire(queue_manager, (kind,), name) if one.name == name]
        for keyword in _LISTS if found else ():
            both = f"{found[0].values[keyword]},{attributes.get(keyword, '')}"
            attributes[keyword] = admin.list_text(dict.fromkeys(admin.entries_of(both)))
        admin.alter(queue_manager, kind, name, attributes)
    lost = (WithoutEffect(kind, name, kind),)
    return Reply((MqscMessage("MFY1012I", f"IBM MQ {_NOUNS[kind]} set."),), without_effect=lost)


def _joined(parameters: Iterable[Parameter]) -> list[Parameter]:
    """Return parameters, with several of one list joined to one.

    Example: ``RECIP(a) RECIP(b)`` becomes ``RECIP(a,b)`` if no other parameter is between them.
    Only SIGNER and RECIP are lists.
    """
    found: list[Parameter] = []
    for each in parameters:
        last = found[-1] if found else None
        if last is not None and each.keyword in _LISTS and each.keyword == last.keyword:
            values = (*(last.values or ()), *(each.values or ()))
            found[-1] = Parameter(last.keyword, values, last.start, each.end)
        else:
            found.append(each)
    return found


def _tolerates(remaining: dict[str, Parameter]) -> dict[str, Value]:
    """Remove TOLERATE and ENFORCE without a value from ``remaining``; return the attribute.

    TOLERATE means YES, ENFORCE means NO. Without either, or for TOLERATE(word), return {}.
    """
    found: dict[str, Value] = {}
    for keyword, value in ((_TOLERATE, 1), ("ENFORCE", 0)):
        parameter = remaining.get(keyword)
        if parameter is not None and (parameter.values is None or keyword != _TOLERATE):
            no_value(parameter)
            del remaining[keyword]
            found[_TOLERATE] = value
    return found


def _note_of_no_effect(lost: Iterable[WithoutEffect]) -> MqscMessage | None:
    """Return the one message of a script that names all that it has set without effect in Mayfly.

    Returns None if there is nothing.
    """
    by_kind: dict[str, dict[str, list[str]]] = {}
    for one in lost:
        names = by_kind.setdefault(one.kind, {}).setdefault(one.text, [])
        if one.name not in names:
            names.append(one.name)
    if not by_kind:
        return None
    lines = [
        f"   {kind} {text if text != kind else ''}".rstrip() + f": {_listed(names)}"
        for kind, found in sorted(by_kind.items())
        for text, names in sorted(found.items())
    ]
    return MqscMessage(WITHOUT_EFFECT, "These are kept, and have no effect here:", "\n".join(lines))


def _listed(names: list[str]) -> str:
    """Return names with commas; beyond three the others are a number: ``A, B, C and 2 more``."""
    shown = ", ".join(names[:_NAMES_SHOWN])
    rest = len(names) - _NAMES_SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown


class _Replies(NamedTuple):
    """Messages of runmqsc, each with its code, for the changes of an object type."""

    created: tuple[str, str]
    changed: tuple[str, str]
    deleted: tuple[str, str]


def _replies(noun: str, created: str, changed: str, deleted: str) -> _Replies:
    """Return the messages with these codes for an object type, called ``noun`` in their texts.

    Example: ``'queue'`` and ``'AMQ8006I'`` -> ``'IBM MQ queue created.'`` for ``created``.
    """
    return _Replies(
        (created, f"IBM MQ {noun} created."),
        (changed, f"IBM MQ {noun} changed."),
        (deleted, f"IBM MQ {noun} deleted."),
    )


_REPLIES: dict[str, _Replies] = {
    **dict.fromkeys(QUEUE_KINDS, _replies("queue", "AMQ8006I", "AMQ8008I", "AMQ8007I")),
    TOPIC: _replies("topic", "AMQ8690I", "AMQ8691I", "AMQ8692I"),
    SUB: _replies("subscription", "AMQ8094I", "AMQ8095I", "AMQ8091I"),
    PROCESS: _replies("process", "AMQ8010I", "AMQ8012I", "AMQ8011I"),
    **dict.fromkeys((CHANNEL, CLNTCONN), _replies("channel", "AMQ8014I", "AMQ8016I", "AMQ8015I")),
    AUTHINFO: _replies("authentication information object", "AMQ8563I", "AMQ8567I", "AMQ8564I"),
    **{kind: _replies(noun, "MFY1011I", "MFY1012I", "MFY1013I") for kind, noun in _NOUNS.items()},
    LISTENER: _replies("listener", "AMQ8626I", "MFY1012I", "MFY1013I"),
}


def head_of(command: Command) -> tuple[str, str]:
    """Return (verb, object type) of a command, without abbreviations.

    Example: ``DIS QL(A)`` -> ``('DISPLAY', 'QLOCAL')``. An unknown word is returned unchanged.
    """
    return without_abbreviations(command.verb.keyword, command.object.keyword)


def without_abbreviations(verb: str, kind: str) -> tuple[str, str]:
    """Return a verb and an object type without abbreviations, unknown words unchanged."""
    return _VERB_SYNONYMS.get(verb, verb), _OBJECT_SYNONYMS.get(kind, kind)


def execute(queue_manager: Engine, command: Command, text: str) -> Reply:
    """Run a command, whose ``text`` is for its event, and return its reply.

    Raises MqscSyntaxError for a wrong command, which then changes nothing. An error of the engine
    is a message in the reply, not an exception.
    """
    verb, kind = head_of(command)
    actions = ACTIONS.get(verb)
    if actions is None:
        raise command.verb.wrong(f"{verb} is not a command here" + nearest(verb, ACTIONS))
    action = actions.get(kind)
    if action is None:
        raise command.object.wrong(f"{verb} knows {', '.join(actions)}, not {kind}")
    if kind in _OF_MANAGER and (verb, str(command.object)) != ("REFRESH", f"{SECURITY}(*)"):
        no_value(command.object)
    ignores_state, command = _without_ignstate(verb, command)
    try:
        with commanded_by(Origin(origin=MQEVO_CONSOLE)):
            if kind in (SUB, SBSTATUS) and verb in _BY_ID:
                command = _named_by_id(queue_manager, command)
            reply = action(queue_manager, command, kind)
            if all(message.is_information for message in reply.messages):
                report_mqsc(queue_manager, verb, text)
        return reply
    except AdminError as error:
        raise _placed(error, command) from error
    except UnknownLikeObject as error:
        return not_found(error.name)
    except MQError as error:
        if ignores_state and error.reason in _MISSING:
            return done("MFY1004I", "There is no such object, which IGNSTATE(YES) ignores.")
        return Reply((failure(error, command.object),))


def _named_by_id(queue_manager: Engine, command: Command) -> Command:
    """Return a command about ``SUB SUBID(id)`` as one about the name of this subscription.

    Any other command is returned unchanged. Raises MqscSyntaxError for several values, and
    MQRC_NO_SUBSCRIPTION for an id that no subscription with a name has.
    """
    identifier = distinct(command.parameters).get(_SUBID)
    if command.object.values is not None or identifier is None or identifier.values is None:
        return command
    wanted = fold(one_value(identifier))
    for record in admin.inquire(queue_manager, (SUB,), GENERIC):
        if record.name and record.values[_SUBID] == wanted:
            token = replace(identifier.values[0], text=record.name)
            others = tuple(one for one in command.parameters if one is not identifier)
            about = replace(command.object, values=(token,))
            return replace(command, object=about, parameters=others)
    raise mq_error(rc.MQRC_NO_SUBSCRIPTION, f"no subscription has the id {wanted}")


def _without_ignstate(verb: str, command: Command) -> tuple[bool, Command]:
    """Return (True if a command has IGNSTATE(YES), the command without IGNSTATE).

    Only DELETE, START and STOP can have it. Raises MqscSyntaxError for another word than YES and
    NO.
    """
    found = [one for one in command.parameters if one.keyword == _IGNSTATE]
    if verb not in _WITH_IGNSTATE or not found:
        return False, command
    distinct(found)
    others = tuple(one for one in command.parameters if one.keyword != _IGNSTATE)
    return word_of(found[0], ("NO", "YES")) == "YES", replace(command, parameters=others)


def _placed(error: AdminError, command: Command) -> MqscSyntaxError:
    """Return an AdminError as a MqscSyntaxError at the parameter of its attribute.

    Without such a parameter the position is that of the command's object.
    """
    parameters = {} if isinstance(error, WrongObject) else distinct(command.parameters)
    return parameters.get(error.attribute, command.object).wrong(error.detail)


def _name(parameter: Parameter, kind: str) -> str:
    """Return the name of one object, in parentheses behind the object type.

    Raises MqscSyntaxError for no name, several, or an invalid name. Any text is valid for a
    subscription.
    """
    if kind == SUB:
        return one_value(parameter)
    is_channel = kind in (CHANNEL, CLNTCONN)
    return status.name_of(parameter) if is_channel else object_name(parameter)


def _define(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DEFINE type(name) [attributes] [LIKE(name)] [REPLACE | NOREPLACE]; return its reply.

    Raises MqscSyntaxError, AdminError, UnknownLikeObject, and MQError for an object that exists
    without REPLACE. ``kind`` is the object type, without abbreviation.
    """
    name = _name(command.object, kind)
    remaining = distinct(command.parameters)
    kind = status.kind_of(remaining, kind)
    replaces = switch(remaining, "REPLACE")
    switch(remaining, _FORCE)
    like_object = remaining.pop("LIKE", None)
    like = None if like_object is None else _name(like_object, kind)
    attributes = settings(remaining, kind)
    admin.define(queue_manager, kind, name, attributes, like=like, replace=replaces)
    return _changed(queue_manager, *_REPLIES[kind].created, kind, name, attributes)


def _alter(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run ALTER type(name) [attributes]; return its reply.

    Raises MqscSyntaxError, AdminError, and MQError for an unknown object. ``kind`` is the object
    type, without abbreviation.
    """
    name = _name(command.object, kind)
    remaining = distinct(command.parameters)
    kind = status.kind_of(remaining, kind)
    switch(remaining, _FORCE)
    attributes = settings(remaining, kind)
    admin.alter(queue_manager, kind, name, attributes)
    return _changed(queue_manager, *_REPLIES[kind].changed, kind, name, attributes)


def _alter_manager(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run ALTER QMGR [attributes]; return its reply AMQ8005I.

    Raises MqscSyntaxError, AdminError. ``kind`` is QMGR.
    """
    remaining = distinct(command.parameters)
    switch(remaining, _FORCE)
    attributes = settings(remaining, kind)
    name = queue_manager.name
    admin.alter(queue_manager, kind, name, attributes)
    message = ("AMQ8005I", "IBM MQ queue manager changed.")
    return _changed(queue_manager, *message, kind, name, attributes)


def _changed(
    queue_manager: Engine,
    code: str,
    text: str,
    kind: str,
    name: str,
    attributes: Mapping[str, Value],
) -> Reply:
    """Return the reply to a definition: a message, and the given attributes without effect.

    ``code`` and ``text`` are those of the message; ``kind`` and ``name`` are those of the object.
    """
    lost = admin.without_effect(queue_manager, kind, name, attributes)
    found = tuple(WithoutEffect(kind, name, each) for each in lost)
    return Reply((MqscMessage(code, text),), without_effect=found)


def _delete(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DELETE type(name); return its reply. PURGE also deletes the messages of a local queue.

    Raises MqscSyntaxError, and MQError for an unknown or open object, or messages without PURGE.
    ``kind`` is the object type, without abbreviation.
    """
    name = _name(command.object, kind)
    remaining = distinct(command.parameters)
    purge = kind == QLOCAL and switch(remaining, "PURGE")
    kind = status.kind_to_delete(remaining, kind)
    nothing_else(command, kind, remaining)
    admin.delete(queue_manager, kind, name, purge=purge)
    return done(*_REPLIES[kind].deleted)


def _clear(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run CLEAR QLOCAL(name), which removes all messages; return its reply AMQ8022I.

    Raises MqscSyntaxError, and MQError for an unknown or open queue. ``kind`` is QLOCAL.
    """
    name = object_name(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    admin.clear_queue(queue_manager, name)
    return done("AMQ8022I", "IBM MQ queue cleared.")


def _clear_topic(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run CLEAR TOPICSTR(topic string) CLRTYPE(RETAINED); return its reply AMQ8684I.

    Removes the retained publication, if any. Raises MqscSyntaxError, and MQRC_TOPIC_STRING_ERROR.
    ``kind`` is TOPICSTR.
    """
    topic = one_value(command.object)
    remaining = distinct(command.parameters)
    clear_type = remaining.pop("CLRTYPE", None)
    if clear_type is None or fold(one_value(clear_type)) != _RETAINED:
        raise command.object.wrong(f"CLEAR {kind} needs CLRTYPE({_RETAINED})")
    nothing_else(command, kind, remaining)
    admin.clear_topic(queue_manager, topic)
    return done("AMQ8684I", "Topic string cleared.")


def _ping(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run PING QMGR; return its reply AMQ8415I.

    Raises MQError if the queue manager has stopped, MqscSyntaxError. ``kind`` is QMGR.
    """
    nothing_else(command, kind, distinct(command.parameters))
    queue_manager.check_running()
    return done("AMQ8415I", "Ping IBM MQ Queue Manager command complete.")


def _display(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run DISPLAY type(generic) [TYPE()] [attributes] [WHERE()], for most object types.

    Returns a message for each object, AMQ8147E for none. Raises MqscSyntaxError,
    MQRC_TOPIC_STRING_ERROR for TPSTATUS, and MQError for DISPLAY GROUP without a group. ``kind`` is
    the object type, without abbreviation.
    """
    pattern = _pattern(queue_manager, command.object, kind)
    remaining = distinct(command.parameters)
    if kind in _WITHOUT_PARAMETERS:
        nothing_else(command, kind, remaining)
    if kind in _OF_MANAGER and "WHERE" in remaining:
        raise remaining["WHERE"].wrong(f"WHERE is not a keyword of DISPLAY {kind}")
    kinds = _types(remaining, kind)
    is_asked = status.asked(remaining, kinds[0])
    is_name_alone = pattern.endswith(GENERIC) and not {kind, kinds[0]} & {*_SHOWN_WHOLE}
    wanted = selection(remaining, kinds, generic=is_name_alone)
    found = filter(is_asked, admin.inquire(queue_manager, kinds, pattern))
    return shown(found, wanted, pattern, *_HEADINGS[kind])


def _pattern(queue_manager: Engine, parameter: Parameter, kind: str) -> str:
    """Return the generic name in a DISPLAY; for TPSTATUS the topic string.

    For an object type that takes no name it is the name of the queue manager. Raises
    MqscSyntaxError for an invalid name.
    """
    if kind in _OF_MANAGER:
        return queue_manager.name
    if kind == APSTATUS:
        return one_value(parameter)
    return one_value(parameter) if kind in _NAMED_BY_TEXT else object_name(parameter, generic=True)


def _types(remaining: dict[str, Parameter], kind: str) -> tuple[str, ...]:
    """Remove TYPE(type) from ``remaining``; return the object types that DISPLAY shows.

    DISPLAY QUEUE without TYPE, and with TYPE(ALL), shows all queue types. TYPE() of a kind that has
    none stays in ``remaining``. Raises MqscSyntaxError for another word.
    """
    everything = QUEUE_KINDS if kind == _QUEUE else (kind,)
    parameter = remaining.get("TYPE")
    if parameter is None or parameter.values is None:
        return everything
    if kind in _KINDS_BY_TYPE:
        known = _KINDS_BY_TYPE[kind]
        return (known[word_of(remaining.pop("TYPE"), tuple(known))],)
    if kind != _QUEUE:
        return everything
    del remaining["TYPE"]
    word = fold(one_value(parameter))
    word = _OBJECT_SYNONYMS.get(word, word)
    if word not in (*QUEUE_KINDS, _ALL_TYPES):
        choices = " or ".join((*QUEUE_KINDS, _ALL_TYPES))
        raise parameter.wrong(f"{parameter} is not right: it must be {choices}")
    return everything if word == _ALL_TYPES else (word,)


def _alter_setting(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run ALTER SETTING(name) VALUE(value), durable and in force for later calls.

    Returns the reply MFY1002I. Raises MqscSyntaxError, AdminError for a wrong value,
    MQRC_UNKNOWN_OBJECT_NAME for an unknown setting. ``kind`` is SETTING.
    """
    name = one_value(command.object)
    remaining = distinct(command.parameters)
    value = remaining.pop("VALUE", None)
    if value is None:
        raise command.object.wrong("VALUE is missing")
    nothing_else(command, kind, remaining)
    alter_setting(queue_manager, name, setting_value(name, one_value(value)))
    return done(*_SETTING_CHANGED)


def _reset_setting(queue_manager: Engine, command: Command, kind: str) -> Reply:
    """Run RESET SETTING(name), which restores the default; return the reply MFY1002I.

    Raises MqscSyntaxError, MQRC_UNKNOWN_OBJECT_NAME for an unknown setting. ``kind`` is SETTING.
    """
    name = one_value(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    reset_setting(queue_manager, name)
    return done(*_SETTING_CHANGED)


_KEPT_RUNNING: dict[str, _Action] = dict.fromkeys((LISTENER, SERVICE), _start_or_stop_kept)
#: The functions that run the commands, by verb and type of object.
ACTIONS: dict[str, dict[str, _Action]] = {
    "DEFINE": dict.fromkeys(_DEFINED, _define),
    "ALTER": {
        **dict.fromkeys(_DEFINED, _alter),
        QMGR: _alter_manager,
        SETTING: _alter_setting,
    },
    "DISPLAY": {
        **dict.fromkeys((*QUEUE_KINDS, _QUEUE, QSTATUS, PROCESS, AUTHINFO), _display),
        CHANNEL: status.display,
        CHSTATUS: status.display_status,
        CONN: status.display_connections,
        **dict.fromkeys(_NOUNS, _display),
        **dict.fromkeys((TOPIC, TPSTATUS, GROUP_STATUS, SUB, QMGR, QMSTATUS), _display),
        **dict.fromkeys((SBSTATUS, APSTATUS, SECURITY, AUTHSERV), _display),
        PUBSUB: status.neighbours,
        **dict.fromkeys(_NEVER_HERE, status.nothing_runs),
        AUTHREC: access.display_records,
        ENTAUTH: access.display_entity,
        CHLAUTH: access.display_rules,
        SETTING: _display,
    },
    "DELETE": {**dict.fromkeys(_DEFINED, _delete), AUTHREC: access.delete_record},
    "SET": {AUTHREC: access.set_record, CHLAUTH: access.set_rule, POLICY: _set_policy},
    "REFRESH": {SECURITY: access.refresh, QMGR: status.refresh_manager},
    "CLEAR": {QLOCAL: _clear, _TOPIC_STRING: _clear_topic},
    "PING": {QMGR: _ping, CHANNEL: status.ping},
    "START": {CHANNEL: status.start, **_KEPT_RUNNING},
    "STOP": {CHANNEL: status.stop, CONN: status.end_connection, **_KEPT_RUNNING},
    "RESET": {
        CHANNEL: status.reset,
        QSTATS: status.reset_statistics,
        SETTING: _reset_setting,
    },
    "MOVE": {QLOCAL: status.move},
    "RESOLVE": {CHANNEL: status.resolve},
}
#: The object types that each verb knows.
OBJECTS_OF_VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    verb: tuple(actions) for verb, actions in ACTIONS.items()
}


def run_script(queue_manager: Engine, text: str) -> MqscResult:
    """Run a script of MQSC commands; return their replies and the transcript of runmqsc.

    A wrong command changes nothing, and the next one runs. END ends the script. No command raises
    an exception. When values were given that have no effect here, the last command has a message
    (MFY1003I) that names those of the whole script.
    """
    transcript = [f"Starting MQSC for queue manager {queue_manager.name}.\n"]
    commands: list[CommandResult] = []
    lost: list[WithoutEffect] = []
    for statement in statements(text):
        if not statement.is_command:
            transcript.append(_echo(statement.lines))
            continue
        transcript.append(_echo(statement.lines, len(commands) + 1))
        if is_end(statement):
            break
        outcome = _run(queue_manager, statement)
        lost += outcome.without_effect
        transcript += map(str, outcome.messages)
        commands.append(
            CommandResult(len(commands) + 1, statement.text, outcome.messages, outcome.rows)
        )
    note = _note_of_no_effect(lost)
    if note is not None:
        transcript += ["", str(note)]
        last = commands[-1]
        commands[-1] = last._replace(messages=(*last.messages, note))
    transcript.append(_tail(commands))
    return MqscResult("\n".join(transcript) + "\n", tuple(commands))


def heads_of(text: str) -> set[tuple[str, str]]:
    """Return (verb, object type) of every command that a script would run, without abbreviations.

    Runs nothing. Commands with a syntax error, and those after END, are left out.
    """
    found: set[tuple[str, str]] = set()
    for statement in statements(text):
        if statement.is_command:
            if is_end(statement):
                break
            with contextlib.suppress(MqscSyntaxError):
                found.add(head_of(parse(statement)))
    return found


def role_of(verb: str, kind: str) -> Role:
    """Return the role that a command needs: LOOK for ``DISPLAY``, ADMINISTER for ``DEFINE``.

    ``verb`` is the first word of the command, ``kind`` the type of object that follows, both
    without abbreviations (:func:`heads_of`).
    """
    if verb in _LOOKING:
        return Role.LOOK
    return Role.OPERATE if (verb, kind) in _OPERATING else Role.ADMINISTER


def is_end(statement: Statement) -> bool:
    """Return True if a statement is END, EXIT or QUIT, in any case, with or without ``;``."""
    return fold(statement.text).rstrip("; ") in ENDS


def _run(queue_manager: Engine, statement: Statement) -> Reply:
    """Run the command in a statement; a syntax error becomes a message in the reply.

    A message about a failure has a place in the script: of the error, else of the command.
    """
    try:
        reply = execute(queue_manager, parse(statement), statement.text)
    except MqscSyntaxError as error:
        return Reply((_syntax_error(statement, error),))
    line, column = statement.place(0)
    messages = tuple(
        message if message.is_information else message._replace(line=line, column=column)
        for message in reply.messages
    )
    return Reply(messages, reply.rows, reply.without_effect)


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
