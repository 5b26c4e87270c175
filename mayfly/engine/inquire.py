"""MQINQ and MQSET: attributes of an open queue, and of the queue manager, by their selectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from mayfly.engine.administration import alter
from mayfly.engine.attributes import ATTRIBUTES, attributes_of
from mayfly.engine.attributes.attribute import (
    QALIAS,
    QLOCAL,
    QMGR,
    QMODEL,
    QREMOTE,
    QUEUE_KINDS,
    Value,
)
from mayfly.engine.definitions import Definition
from mayfly.engine.queues import LocalQueue
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.keys import MAX_PRIORITY

if TYPE_CHECKING:
    from mayfly.engine.handles import Handle
    from mayfly.engine.manager import Manager

#: The character set of the queue manager's own texts: UTF-8.
MANAGER_CCSID: Final = 1208

_QUEUE_TYPES = {
    QLOCAL: c.MQQT_LOCAL,
    QALIAS: c.MQQT_ALIAS,
    QREMOTE: c.MQQT_REMOTE,
    QMODEL: c.MQQT_MODEL,
}
_NAME_LENGTH = 48
_SETTABLE = {c.MQIA_INHIBIT_PUT: "PUT", c.MQIA_INHIBIT_GET: "GET"}

#: What every queue has beside its MQSC attributes.
_OF_ANY_QUEUE: dict[int, Callable[[Definition], Value]] = {
    c.MQCA_Q_NAME: lambda definition: definition.name,
    c.MQIA_Q_TYPE: lambda definition: _QUEUE_TYPES[definition.kind],
}
#: What a local queue has beside them.
_OF_LOCAL_QUEUE: dict[int, Callable[[LocalQueue], Value]] = {
    c.MQIA_CURRENT_Q_DEPTH: lambda queue: queue.depth,
    c.MQIA_OPEN_INPUT_COUNT: lambda queue: queue.input_count,
    c.MQIA_OPEN_OUTPUT_COUNT: lambda queue: queue.output_count,
    c.MQIA_DEFINITION_TYPE: lambda queue: queue.definition.definition_type,
}
_OF_MANAGER: dict[int, Callable[[Manager], Value]] = {
    c.MQCA_Q_MGR_NAME: lambda manager: manager.name,
    c.MQIA_COMMAND_LEVEL: lambda manager: manager.command_level,
    c.MQIA_PLATFORM: lambda manager: c.MQPL_ZOS if manager.platform == "zos" else c.MQPL_UNIX,
    c.MQIA_CODED_CHAR_SET_ID: lambda _manager: MANAGER_CCSID,
    c.MQIA_MAX_PRIORITY: lambda _manager: MAX_PRIORITY,
    c.MQIA_SYNCPOINT: lambda _manager: c.MQSP_AVAILABLE,
}


class Inquiry(NamedTuple):
    """Values in the order of the selectors.

    What this type of queue does not have is None, with the warning MQRC_SELECTOR_NOT_FOR_TYPE.
    """

    values: list[Value | None]
    warning: int


def inquire(core: Manager, handle: Handle, selectors: Sequence[int]) -> Inquiry:
    """MQINQ on a queue; on an alias it is the alias that answers.

    Raises MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_INQUIRE (C8), MQRC_SELECTOR_ERROR, MQRC_Q_DELETED.
    """
    _check_open(handle, c.MQOO_INQUIRE, rc.MQRC_NOT_OPEN_FOR_INQUIRE, "MQOO_INQUIRE")
    with core.latch:
        core.check_running()
        values = [_value(core, handle, selector) for selector in selectors]
    return Inquiry(values, rc.MQRC_SELECTOR_NOT_FOR_TYPE if None in values else rc.MQRC_NONE)


def inquire_manager(core: Manager, selectors: Sequence[int]) -> list[Value]:
    """MQINQ on the queue manager itself; raises MQRC_SELECTOR_ERROR."""
    keywords = _keywords(QMGR)
    values = []
    with core.latch:
        core.check_running()
        for selector in selectors:
            if selector in _OF_MANAGER:
                values.append(_OF_MANAGER[selector](core))
            elif selector in keywords:
                values.append(core.registry.queue_manager.attributes[keywords[selector]])
            else:
                raise _unknown(selector)
    return values


def set_attributes(core: Manager, handle: Handle, values: Mapping[int, int]) -> None:
    """MQSET: change MQIA_INHIBIT_PUT and MQIA_INHIBIT_GET of the object opened; durable on return.

    Raises MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_SET (C8), MQRC_SELECTOR_ERROR for everything else,
    MQRC_INHIBIT_VALUE_ERROR, MQRC_Q_DELETED; nothing is changed then.
    """
    _check_open(handle, c.MQOO_SET, rc.MQRC_NOT_OPEN_FOR_SET, "MQOO_SET")
    changes: dict[str, Value] = {}
    for selector, value in values.items():
        if selector not in _SETTABLE:
            raise _unknown(selector)
        # Allowed and inhibited are 0 and 1 for both attributes.
        if value not in (c.MQQA_PUT_ALLOWED, c.MQQA_PUT_INHIBITED):
            raise mq_error(rc.MQRC_INHIBIT_VALUE_ERROR, f"{_SETTABLE[selector]} {value}")
        changes[_SETTABLE[selector]] = value
    if changes:
        definition = _opened(core, handle)
        alter(core, definition.kind, definition.name, changes)


def text_length(selector: int) -> int:
    """Return how many characters the value of a character selector has, padded."""
    return _text_lengths().get(selector, _NAME_LENGTH)


def _value(core: Manager, handle: Handle, selector: int) -> Value | None:
    definition, queue = _opened(core, handle), handle.path.queue
    if selector in _OF_ANY_QUEUE:
        return _OF_ANY_QUEUE[selector](definition)
    if selector in _OF_LOCAL_QUEUE:
        return _OF_LOCAL_QUEUE[selector](queue) if definition.kind == QLOCAL else None
    keyword = _keywords(definition.kind).get(selector)
    if keyword is not None:
        return definition.attributes[keyword]
    if any(selector in _keywords(kind) for kind in QUEUE_KINDS):
        return None
    raise _unknown(selector)


def _opened(core: Manager, handle: Handle) -> Definition:
    definition = core.registry.find(handle.path.name)
    if definition is None:
        raise mq_error(rc.MQRC_Q_DELETED, f"{handle.path.name} was deleted")
    return definition


def _check_open(handle: Handle, option: int, reason: int, option_name: str) -> None:
    if not handle.is_open:
        raise mq_error(rc.MQRC_HOBJ_ERROR, "the handle is closed")
    if not handle.options & option:
        raise mq_error(reason, f"the queue was not opened with {option_name}")


@cache
def _keywords(kind: str) -> dict[int, str]:
    attributes = attributes_of(kind).values()
    return {a.selector: a.keyword for a in attributes if a.selector is not None}


@cache
def _text_lengths() -> dict[int, int]:
    return {a.selector: a.length for a in ATTRIBUTES if a.is_text and a.selector is not None}


def _unknown(selector: int) -> MQError:
    return mq_error(rc.MQRC_SELECTOR_ERROR, f"selector {selector}")
