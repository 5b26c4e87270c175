"""MQINQ: the attributes of an open queue, process or queue manager, by their selectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from mayfly.engine.attributes import ATTRIBUTES, attributes_of
from mayfly.engine.attributes.attribute import (
    PROCESS,
    QALIAS,
    QLOCAL,
    QMGR,
    QMODEL,
    QREMOTE,
    QUEUE_KINDS,
    Attribute,
)
from mayfly.engine.attributes.of_queues import QueueDefinition
from mayfly.engine.core import Core
from mayfly.engine.objects.handle import DefinitionHandle
from mayfly.engine.queues import LocalQueue
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.code_pages import MANAGER_CCSID
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.keys import MAX_PRIORITY
from mayfly.verbs.facts import Inquiry, Value

if TYPE_CHECKING:
    from mayfly.engine.handles import Handle
    from mayfly.engine.session import Session

_QUEUE_TYPES = {
    QLOCAL: c.MQQT_LOCAL,
    QALIAS: c.MQQT_ALIAS,
    QREMOTE: c.MQQT_REMOTE,
    QMODEL: c.MQQT_MODEL,
}
_NAME_LENGTH = 48
_MOST_SELECTORS = 256

#: Selectors of every queue beside its MQSC attributes.
_OF_ANY_QUEUE: dict[int, Callable[[QueueDefinition], Value]] = {
    c.MQCA_Q_NAME: lambda definition: definition.name,
    c.MQIA_Q_TYPE: lambda definition: _QUEUE_TYPES[definition.kind],
}
#: Selectors of a local queue beside them.
_OF_LOCAL_QUEUE: dict[int, Callable[[LocalQueue], Value]] = {
    c.MQIA_CURRENT_Q_DEPTH: lambda queue: queue.depth,
    c.MQIA_OPEN_INPUT_COUNT: lambda queue: queue.input_count,
    c.MQIA_OPEN_OUTPUT_COUNT: lambda queue: queue.output_count,
    c.MQIA_DEFINITION_TYPE: lambda queue: queue.definition.definition_type,
    c.MQIA_DIST_LISTS: lambda _queue: c.MQDL_NOT_SUPPORTED,
}
_PLATFORMS = {"distributed": c.MQPL_UNIX, "ibmi": c.MQPL_OS400, "zos": c.MQPL_ZOS}
_OF_MANAGER: dict[int, Callable[[Core], Value]] = {
    c.MQCA_Q_MGR_NAME: lambda manager: manager.name,
    # QMID: the name, and the number that tells its store from all others.
    c.MQCA_Q_MGR_IDENTIFIER: lambda manager: (
        f"{manager.name[:15]}_{manager.store.ledger.instance_id}"
    ),
    c.MQIA_COMMAND_LEVEL: lambda manager: manager.command_level,
    c.MQIA_PLATFORM: lambda manager: _PLATFORMS[manager.platform],
    c.MQIA_CODED_CHAR_SET_ID: lambda _manager: MANAGER_CCSID,
    c.MQIA_MAX_PRIORITY: lambda _manager: MAX_PRIORITY,
    c.MQIA_SYNCPOINT: lambda _manager: c.MQSP_AVAILABLE,
    c.MQIA_DIST_LISTS: lambda _manager: c.MQDL_NOT_SUPPORTED,
}


def inquire(core: Core, handle: Handle | DefinitionHandle, selectors: Sequence[int]) -> Inquiry:
    """MQINQ, up to 256 selectors at a time; of an alias it is the alias that answers.

    Raises MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_INQUIRE (C8), MQRC_SELECTOR_ERROR,
    MQRC_SELECTOR_LIMIT_EXCEEDED, and MQRC_Q_DELETED or, for a process, MQRC_OBJECT_CHANGED when it
    is not there any more.
    """
    check_opened(handle, c.MQOO_INQUIRE, rc.MQRC_NOT_OPEN_FOR_INQUIRE, "MQOO_INQUIRE")
    if len(selectors) > _MOST_SELECTORS:
        said = f"{len(selectors)} selectors, {_MOST_SELECTORS} are allowed"
        raise mq_error(rc.MQRC_SELECTOR_LIMIT_EXCEEDED, said)
    with core.engine_lock:
        core.check_running()
        if not isinstance(handle, DefinitionHandle):
            values = [_of_queue(core, handle, selector) for selector in selectors]
        elif handle.kind == PROCESS:
            values = [_of_process(core, handle.name, selector) for selector in selectors]
        else:
            return Inquiry([*inquire_manager(core, selectors)], rc.MQRC_NONE)
    return Inquiry(values, rc.MQRC_SELECTOR_NOT_FOR_TYPE if None in values else rc.MQRC_NONE)


def inquire_manager(core: Core, selectors: Sequence[int]) -> list[Value]:
    """MQINQ on the queue manager itself; raises MQRC_SELECTOR_ERROR."""
    known = by_selector(QMGR)
    values = []
    with core.engine_lock:
        core.check_running()
        for selector in selectors:
            if selector in _OF_MANAGER:
                values.append(_OF_MANAGER[selector](core))
            elif selector in known:
                values.append(core.registry.queue_manager.value(known[selector]))
            else:
                raise unknown_selector(selector)
    return values


def inquire_itself(session: Session, selectors: Sequence[int]) -> Inquiry:
    """MQINQ on the queue manager of a session; raises MQRC_NOT_AUTHORIZED, MQRC_SELECTOR_ERROR."""
    if session.authority is not None:
        session.authority.check_inquire()
    return Inquiry([*inquire_manager(session.core, selectors)], rc.MQRC_NONE)


def text_length(selector: int) -> int:
    """Return how many characters the value of a character selector has, padded."""
    return _text_lengths().get(selector, _NAME_LENGTH)


def opened_definition(core: Core, handle: Handle) -> QueueDefinition:
    """Return the definition of the name that was opened; raises MQRC_Q_DELETED."""
    definition = core.registry.find(handle.path.name)
    if definition is None:
        raise mq_error(rc.MQRC_Q_DELETED, f"{handle.path.name} was deleted")
    return definition


def check_opened(
    handle: Handle | DefinitionHandle, option: int, reason: int, option_name: str
) -> None:
    """Raise MQRC_HOBJ_ERROR, or the reason for a handle that was not opened with an option."""
    if not handle.is_open:
        raise mq_error(rc.MQRC_HOBJ_ERROR, "the handle is closed")
    if not handle.options & option:
        raise mq_error(reason, f"the object was not opened with {option_name}")


@cache
def by_selector(kind: str) -> Mapping[int, Attribute]:
    """Return the attributes of a kind of object that have a selector."""
    attributes = attributes_of(kind).values()
    return MappingProxyType({a.selector: a for a in attributes if a.selector is not None})


def unknown_selector(selector: int) -> MQError:
    """Return the error for a selector that the object does not have."""
    return mq_error(rc.MQRC_SELECTOR_ERROR, f"selector {selector}")


def _of_queue(core: Core, handle: Handle, selector: int) -> Value | None:
    definition, queue = opened_definition(core, handle), handle.path.queue
    if selector in _OF_ANY_QUEUE:
        return _OF_ANY_QUEUE[selector](definition)
    if selector in _OF_LOCAL_QUEUE:
        return _OF_LOCAL_QUEUE[selector](queue) if definition.kind == QLOCAL else None
    attribute = by_selector(definition.kind).get(selector)
    if attribute is not None:
        return definition.value(attribute)
    if any(selector in by_selector(kind) for kind in QUEUE_KINDS):
        return None
    raise unknown_selector(selector)


def _of_process(core: Core, name: str, selector: int) -> Value:
    definition = core.registry.named.get((PROCESS, name))
    if definition is None:
        raise mq_error(rc.MQRC_OBJECT_CHANGED, f"{PROCESS} {name} was deleted")
    if selector == c.MQCA_PROCESS_NAME:
        return name
    attribute = by_selector(PROCESS).get(selector)
    if attribute is None:
        raise unknown_selector(selector)
    return definition.value(attribute)


@cache
def _text_lengths() -> dict[int, int]:
    return {a.selector: a.length for a in ATTRIBUTES if a.is_text and a.selector is not None}
