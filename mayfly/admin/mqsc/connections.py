"""The MQSC commands about connections: DISPLAY CONN and STOP CONN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mayfly.admin import CONN, HANDLE, AdminError, fold, inquire, stop_connection
from mayfly.admin.mqsc.display import selection
from mayfly.admin.mqsc.grammar import Command
from mayfly.admin.mqsc.outcome import Outcome, done, nothing_else, shown
from mayfly.admin.mqsc.values import GENERIC, distinct, one_value
from mayfly.verbs.mqsc_result import Message

if TYPE_CHECKING:
    from mayfly.admin import Engine

_TYPE: Final = "TYPE"
_KINDS: Final = {CONN: (CONN,), HANDLE: (HANDLE,), "ALL": (CONN, HANDLE)}
_DETAILS: Final = ("AMQ8276I", "Display Connection details.")


def display(queue_manager: Engine, command: Command, _kind: str) -> Outcome:
    """DISPLAY CONN(generic) [TYPE(CONN | HANDLE | ALL)] [attributes] [WHERE()]."""
    pattern = fold(one_value(command.object))
    given = distinct(command.parameters)
    asked = given.pop(_TYPE, None)
    word = CONN if asked is None else fold(one_value(asked))
    if asked is not None and word not in _KINDS:
        raise asked.wrong(f"{asked} is not right: it must be {' or '.join(_KINDS)}")
    kinds = _KINDS[word]
    wanted = selection(given, kinds, generic=False)
    found = inquire(queue_manager, kinds, pattern)
    found.sort(key=lambda record: record.name)
    if not found and not pattern.endswith(GENERIC):
        return _unknown(AdminError(0, CONN, pattern, pattern))
    return shown(found, wanted, pattern, _DETAILS)


def stop(queue_manager: Engine, command: Command, kind: str) -> Outcome:
    """STOP CONN(id): end a connection; its unit of work is backed out."""
    identifier = fold(one_value(command.object))
    nothing_else(command, kind, distinct(command.parameters))
    try:
        stop_connection(queue_manager, identifier)
    except AdminError as error:
        return _unknown(error)
    return done("AMQ8457I", "IBM MQ connection stopped.")


def _unknown(error: AdminError) -> Outcome:
    text = f"Connection identifier {error.value} not found."
    return Outcome((Message("AMQ8461E", text, reason=error.reason),))
