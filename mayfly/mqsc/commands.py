"""The MQSC commands: each a function of the queue manager and the parsed command."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from mayfly.engine.attributes.attribute import (
    AUTHREC,
    CHANNEL,
    PROCESS,
    QALIAS,
    QLOCAL,
    QMGR,
    QMODEL,
    QREMOTE,
    QUEUE_KINDS,
    SUB,
    TOPIC,
    Value,
)
from mayfly.engine.objects import administration
from mayfly.engine.objects.named import NAMED_KINDS
from mayfly.engine.objects.registry import DEFAULT_OBJECTS
from mayfly.mqi.errors import MQError, ObjectError
from mayfly.mqsc import authority, channels, named_objects, sharing, subscriptions, topics
from mayfly.mqsc.display import (
    CHSTATUS,
    QSTATUS,
    TPSTATUS,
    manager_row,
    queue_row,
    selection,
    status_row,
)
from mayfly.mqsc.grammar import Command, Parameter, fold
from mayfly.mqsc.outcome import Outcome, done, failure, not_found, nothing_else, shown
from mayfly.mqsc.topics import TOPICSTR
from mayfly.mqsc.values import (
    GENERIC,
    distinct,
    matches,
    nearest,
    no_value,
    object_name,
    one_value,
    settings,
    switch,
)

if TYPE_CHECKING:
    from mayfly.engine.manager import Manager

_QUEUE: Final = "QUEUE"
_ALL_TYPES: Final = "ALL"
_VERB_SYNONYMS = {
    "DEF": "DEFINE",
    "ALT": "ALTER",
    "DIS": "DISPLAY",
    "DISP": "DISPLAY",
    "STA": "START",
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

_Action: TypeAlias = Callable[["Manager", Command, str], Outcome]


def execute(queue_manager: Manager, command: Command) -> Outcome:
    """Carry a command out; raises MqscSyntaxError when it is wrong, and then nothing is done."""
    verb = _VERB_SYNONYMS.get(command.verb.keyword, command.verb.keyword)
    actions = _ACTIONS.get(verb)
    if actions is None:
        raise command.verb.wrong(f"{verb} is not a command here" + nearest(verb, _ACTIONS))
    kind = _OBJECT_SYNONYMS.get(command.object.keyword, command.object.keyword)
    action = actions.get(kind)
    if action is None:
        raise command.object.wrong(f"{verb} knows {', '.join(actions)}, not {kind}")
    if kind == QMGR:
        no_value(command.object)
    try:
        return action(queue_manager, command, kind)
    except MQError as error:
        return Outcome((failure(error, command.object),))


def _define(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    name = object_name(command.object)
    given = distinct(command.parameters)
    replace = switch(given, "REPLACE")
    like = given.pop("LIKE", None)
    model_name = DEFAULT_OBJECTS[kind] if like is None else object_name(like)
    attributes = settings(given, kind)
    with queue_manager.latch:
        model = queue_manager.registry.find(model_name)
        if model is not None and model.kind == kind:
            # A queue like a shared one is not shared for that.
            inherited = {k: v for k, v in model.attributes.items() if k != "QSGDISP"}
            attributes = {**inherited, **attributes}
        elif like is not None:
            return not_found(model_name)
    administration.define(queue_manager, kind, name, attributes, replace=replace)
    return done("AMQ8006I", "IBM MQ queue created.")


def _alter(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    name = object_name(command.object)
    attributes = settings(distinct(command.parameters), kind)
    administration.alter(queue_manager, kind, name, attributes)
    return done("AMQ8008I", "IBM MQ queue changed.")


def _alter_manager(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    attributes = settings(distinct(command.parameters), kind)
    administration.alter(queue_manager, kind, queue_manager.name, attributes)
    return done("AMQ8005I", "IBM MQ queue manager changed.")


def _delete(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    name = object_name(command.object)
    given = distinct(command.parameters)
    purge = kind == QLOCAL and switch(given, "PURGE")
    nothing_else(command, kind, given)
    administration.delete(queue_manager, kind, name, purge=purge)
    return done("AMQ8007I", "IBM MQ queue deleted.")


def _clear(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    name = object_name(command.object)
    nothing_else(command, kind, distinct(command.parameters))
    administration.clear(queue_manager, name)
    return done("AMQ8022I", "IBM MQ queue cleared.")


def _ping(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    nothing_else(command, kind, distinct(command.parameters))
    queue_manager.check_running()
    return done("AMQ8415I", "Ping IBM MQ Queue Manager command complete.")


def _display_queue(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    pattern = object_name(command.object, generic=True)
    given = distinct(command.parameters)
    kinds = _types(given) if kind == _QUEUE else (kind,)
    wanted = selection(given, kinds, generic=pattern.endswith(GENERIC))
    with queue_manager.latch:
        rows = [
            queue_row(queue_manager, definition)
            for definition in queue_manager.registry.definitions()
            if definition.kind in kinds and matches(definition.name, pattern)
        ]
    return shown(rows, wanted, pattern, ("AMQ8409I", "Display Queue details."))


def _types(given: dict[str, Parameter]) -> tuple[str, ...]:
    """Take TYPE(kind) out of the parameters; return the kinds that DISPLAY QUEUE shows."""
    if "TYPE" not in given or given["TYPE"].values is None:
        return QUEUE_KINDS
    parameter = given.pop("TYPE")
    kind = fold(one_value(parameter))
    kind = _OBJECT_SYNONYMS.get(kind, kind)
    if kind not in (*QUEUE_KINDS, _ALL_TYPES):
        choices = " or ".join((*QUEUE_KINDS, _ALL_TYPES))
        raise parameter.wrong(f"{parameter} is not right: it must be {choices}")
    return QUEUE_KINDS if kind == _ALL_TYPES else (kind,)


def _display_status(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    pattern = object_name(command.object, generic=True)
    given = distinct(command.parameters)
    view = given.get("TYPE")
    if view is not None and view.values is not None:
        if fold(one_value(view)) != _QUEUE:
            raise view.wrong(f"{view} is not right: it must be {_QUEUE}")
        del given["TYPE"]
    wanted = selection(given, (kind,), generic=pattern.endswith(GENERIC))
    with queue_manager.latch:
        names = [d.name for d in queue_manager.registry.definitions() if d.kind == QLOCAL]
    rows: list[dict[str, Value]] = []
    for name in names:
        # One deleted in the meantime is left out; the latch is not held over all of them.
        with contextlib.suppress(ObjectError):
            if matches(name, pattern):
                rows.append(status_row(queue_manager, name))
    return shown(rows, wanted, pattern, ("AMQ8450I", "Display queue status details."))


def _display_manager(queue_manager: Manager, command: Command, kind: str) -> Outcome:
    given = distinct(command.parameters)
    if "WHERE" in given:
        raise given["WHERE"].wrong("WHERE is not a keyword of DISPLAY QMGR")
    wanted = selection(given, (kind,), generic=False)
    with queue_manager.latch:
        row = manager_row(queue_manager)
    return shown([row], wanted, queue_manager.name, ("AMQ8408I", "Display Queue Manager details."))


_ACTIONS: dict[str, dict[str, _Action]] = {
    "DEFINE": {
        **dict.fromkeys(QUEUE_KINDS, _define),
        **dict.fromkeys(NAMED_KINDS, named_objects.define),
        CHANNEL: channels.define,
        TOPIC: topics.define,
        SUB: subscriptions.define,
    },
    "ALTER": {
        **dict.fromkeys(QUEUE_KINDS, _alter),
        **dict.fromkeys(NAMED_KINDS, named_objects.alter),
        CHANNEL: channels.alter,
        TOPIC: topics.alter,
        SUB: subscriptions.alter,
        QMGR: _alter_manager,
    },
    "DISPLAY": {
        **dict.fromkeys((*QUEUE_KINDS, _QUEUE), _display_queue),
        QSTATUS: _display_status,
        **dict.fromkeys(NAMED_KINDS, named_objects.display),
        CHANNEL: channels.display,
        CHSTATUS: channels.display_status,
        TOPIC: topics.display,
        TPSTATUS: topics.display_status,
        topics.PUBSUB: topics.display_neighbours,
        sharing.GROUP: sharing.display_group,
        SUB: subscriptions.display,
        QMGR: _display_manager,
        AUTHREC: authority.display_records,
        authority.ENTAUTH: authority.display_entity,
    },
    "DELETE": {
        **dict.fromkeys(QUEUE_KINDS, _delete),
        **dict.fromkeys(NAMED_KINDS, named_objects.delete),
        CHANNEL: channels.delete,
        TOPIC: topics.delete,
        SUB: subscriptions.delete,
        AUTHREC: authority.delete_record,
    },
    "SET": {AUTHREC: authority.set_record},
    "CLEAR": {QLOCAL: _clear, TOPICSTR: topics.clear},
    "PING": {QMGR: _ping, CHANNEL: channels.ping},
    "START": {CHANNEL: channels.start},
    "STOP": {CHANNEL: channels.stop},
    "RESET": {CHANNEL: channels.reset},
    "RESOLVE": {CHANNEL: channels.resolve},
}
