"""MQOPEN for inquiry, MQINQ and MQSET: attributes of an open object by selector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mayfly.engine.attribute_type import Attribute
from mayfly.engine.attributes import (
    ATTRIBUTES,
    PROCESS,
    QALIAS,
    QLOCAL,
    QMGR,
    QMODEL,
    QREMOTE,
    QUEUE_KINDS,
    Definition,
    QueueDefinition,
    attributes_of,
)
from mayfly.engine.authority.checks import UserAuthority
from mayfly.engine.authority.records import SELF
from mayfly.engine.core import Core
from mayfly.engine.kept_attributes import kept_attributes_of
from mayfly.engine.objects.administration import alter, find_named
from mayfly.engine.open_handles import OpenObject, OpenQueues
from mayfly.engine.queues import LocalQueue
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.code_pages import MANAGER_CCSID
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.keys import MAX_PRIORITY
from mayfly.verbs.facts import Inquiry, Value

if TYPE_CHECKING:
    from mayfly.engine.handles import Handle


_ALLOWED = c.MQOO_INQUIRE | c.MQOO_ALTERNATE_USER_AUTHORITY | c.MQOO_FAIL_IF_QUIESCING
_KNOWN = (1 << 23) - 1
_KINDS = (PROCESS, QMGR)
#: Of which kind an object is that is neither queue nor topic, by its MQOT_* number.
DEFINITION_KINDS = {c.MQOT_PROCESS: PROCESS, c.MQOT_Q_MGR: QMGR}
_QUEUE_TYPES = {
    QLOCAL: c.MQQT_LOCAL,
    QALIAS: c.MQQT_ALIAS,
    QREMOTE: c.MQQT_REMOTE,
    QMODEL: c.MQQT_MODEL,
}
_NAME_LENGTH = 48
_MAX_SELECTORS = 256
#: Texts that are inquired about and are no attributes: their lengths in bytes, by selector.
_LENGTHS = {
    c.MQCA_ALTERATION_DATE: 12,
    c.MQCA_ALTERATION_TIME: 8,
    c.MQCA_CREATION_DATE: 12,
    c.MQCA_CREATION_TIME: 8,
    c.MQCA_INSTALLATION_DESC: 64,
    c.MQCA_INSTALLATION_NAME: 16,
    c.MQCA_INSTALLATION_PATH: 256,
    c.MQCA_QSG_NAME: 4,
    c.MQCA_VERSION: 8,
}
#: Selectors of every object whose values are not known here: a definition has no dates.
_BLANK = frozenset((c.MQCA_ALTERATION_DATE, c.MQCA_ALTERATION_TIME))
#: Selectors of every queue beside its MQSC attributes.
_OF_ANY_QUEUE: dict[int, Callable[[QueueDefinition], Value]] = {
    c.MQCA_CREATION_DATE: lambda _definition: "",
    c.MQCA_CREATION_TIME: lambda _definition: "",
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
PLATFORM_NUMBERS = {"distributed": c.MQPL_UNIX, "ibmi": c.MQPL_OS400, "zos": c.MQPL_ZOS}
_OF_MANAGER: dict[int, Callable[[Core], Value]] = {
    c.MQCA_Q_MGR_NAME: lambda manager: manager.name,
    c.MQCA_Q_MGR_IDENTIFIER: lambda manager: manager_identifier(manager),
    c.MQCA_COMMAND_INPUT_Q_NAME: lambda _manager: "SYSTEM.ADMIN.COMMAND.QUEUE",
    c.MQCA_QSG_NAME: lambda manager: "" if manager.group is None else manager.group.name,
    c.MQCA_VERSION: lambda manager: version_text(manager.command_level),
    # Nothing is installed as IBM MQ is.
    c.MQCA_INSTALLATION_DESC: lambda _manager: "",
    c.MQCA_INSTALLATION_NAME: lambda _manager: "",
    c.MQCA_INSTALLATION_PATH: lambda _manager: "",
    # MQCAP_*: policies are kept only, and there is no MQTT.
    c.MQIA_ADVANCED_CAPABILITY: lambda _manager: 0,
    c.MQIA_AMQP_CAPABILITY: lambda _manager: 1,
    c.MQIA_PROT_POLICY_CAPABILITY: lambda _manager: 0,
    c.MQIA_XR_CAPABILITY: lambda _manager: 0,
    c.MQIA_COMMAND_LEVEL: lambda manager: manager.command_level,
    c.MQIA_PLATFORM: lambda manager: PLATFORM_NUMBERS[manager.platform],
    c.MQIA_CODED_CHAR_SET_ID: lambda _manager: MANAGER_CCSID,
    c.MQIA_MAX_PRIORITY: lambda _manager: MAX_PRIORITY,
    c.MQIA_SYNCPOINT: lambda _manager: c.MQSP_AVAILABLE,
    c.MQIA_DIST_LISTS: lambda _manager: c.MQDL_NOT_SUPPORTED,
}
#: Selector -> the reason code for a value that the attribute does not take.
_SETTABLE: Final = {
    c.MQIA_INHIBIT_PUT: rc.MQRC_INHIBIT_VALUE_ERROR,
    c.MQIA_INHIBIT_GET: rc.MQRC_INHIBIT_VALUE_ERROR,
    c.MQIA_TRIGGER_CONTROL: rc.MQRC_TRIGGER_CONTROL_ERROR,
    c.MQIA_TRIGGER_TYPE: rc.MQRC_TRIGGER_TYPE_ERROR,
    c.MQIA_TRIGGER_DEPTH: rc.MQRC_TRIGGER_DEPTH_ERROR,
    c.MQIA_TRIGGER_MSG_PRIORITY: rc.MQRC_TRIGGER_MSG_PRIORITY_ERR,
    c.MQCA_TRIGGER_DATA: rc.MQRC_CHAR_ATTR_LENGTH_ERROR,
}


def fixed_attributes(core: Core) -> dict[int, Value]:
    """Return the attributes of a queue manager that nobody can set, by MQINQ selector."""
    return {selector: value(core) for selector, value in _OF_MANAGER.items()}


def manager_identifier(core: Core) -> str:
    """Return QMID, which no other queue manager has: the name, and the number of the store."""
    return f"{core.name[:15]}_{core.store.ledger.instance_id}"


class DefinitionHandle:
    """An open process or queue manager object; closed by :meth:`close` or with its session."""

    def __init__(self, opened: OpenQueues, mark: OpenObject, definition: Definition) -> None:
        """Make the handle for an object that is open; ``mark`` is its entry in ``opened``."""
        self._opened = opened
        self._mark = mark
        self.kind = definition.kind
        self.name = definition.name
        self.options = mark.options
        #: MQHOBJ.
        self.number = mark.number

    @property
    def is_open(self) -> bool:
        """Whether neither the handle nor its session has been closed."""
        return self._mark.is_open

    def __index__(self) -> int:
        return self.number

    def close(self, options: int = c.MQCO_NONE) -> None:
        """MQCLOSE: close the handle.

        Raises MQRC_HOBJ_ERROR when it is closed already, MQRC_OPTION_NOT_VALID_FOR_TYPE for any
        option.
        """
        if not self.is_open:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"the handle of {self.name} is closed")
        if options:
            text = f"close options {options:#x} for a {self.kind}"
            raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, text)
        self._opened.close_object(self._mark)


def open_definition(
    opened: OpenQueues, authority: UserAuthority | None, kind: str, name: str, options: int
) -> DefinitionHandle:
    """MQOPEN of a process, or of the queue manager, whose name may be empty.

    ``opened`` has the open objects of the session. ``authority`` None is not checked. Raises
    MQRC_OPTION_NOT_VALID_FOR_TYPE for options of queues and MQRC_OPTIONS_ERROR for others,
    MQRC_UNKNOWN_OBJECT_NAME, MQRC_NOT_AUTHORIZED, and MQRC_HANDLE_NOT_AVAILABLE beyond MAXHANDS.
    """
    assert kind in _KINDS
    if options & ~_KNOWN or not options & _KNOWN:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"open options {options:#x} for a {kind}")
    if options & ~_ALLOWED or not options & c.MQOO_INQUIRE:
        text = f"open options {options:#x}: a {kind} can only be inquired about"
        raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, text)
    core = opened.core
    if kind == QMGR and name not in ("", core.name):
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"this queue manager is {core.name}")
    definition: Definition = (
        core.registry.queue_manager if kind == QMGR else find_named(core, kind, name)
    )
    if authority is not None:
        authority.check_inquire(kind, SELF if kind == QMGR else name)
    return DefinitionHandle(opened, opened.open_object(kind, name, options), definition)


def inquire(core: Core, handle: Handle | DefinitionHandle, selectors: Sequence[int]) -> Inquiry:
    """MQINQ: return the values for up to 256 selectors, in their order, and a warning.

    For an alias they are attributes of the alias. A queue's value is None, with the warning
    MQRC_SELECTOR_NOT_FOR_TYPE, when only other kinds of queues have the attribute. Raises
    MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_INQUIRE (C8), MQRC_SELECTOR_ERROR,
    MQRC_SELECTOR_LIMIT_EXCEEDED, and after a deletion MQRC_Q_DELETED or, for a process,
    MQRC_OBJECT_CHANGED.
    """
    check_opened(handle, c.MQOO_INQUIRE, rc.MQRC_NOT_OPEN_FOR_INQUIRE, "MQOO_INQUIRE")
    if len(selectors) > _MAX_SELECTORS:
        raise mq_error(
            rc.MQRC_SELECTOR_LIMIT_EXCEEDED,
            f"{len(selectors)} selectors, {_MAX_SELECTORS} are allowed",
        )
    with core.engine_lock:
        core.check_running()
        if not isinstance(handle, DefinitionHandle):
            values = [_of_queue(core, handle, selector) for selector in selectors]
        elif handle.kind == PROCESS:
            values = [_of_process(core, handle.name, selector) for selector in selectors]
        else:
            return Inquiry([*inquire_manager(core, selectors)], rc.MQRC_NONE)
    return Inquiry(values, rc.MQRC_SELECTOR_NOT_FOR_TYPE if None in values else rc.MQRC_NONE)


def version_text(command_level: int) -> str:
    """Return the version of IBM MQ with a command level, as VVRRMMFF: 941 -> ``09040100``."""
    version, release, modification = (
        command_level // 100,
        command_level // 10 % 10,
        command_level % 10,
    )
    return f"{version:02}{release:02}{modification:02}00"


def inquire_manager(core: Core, selectors: Sequence[int]) -> list[Value]:
    """Return attributes of the queue manager, one for each selector, without a check of authority.

    Raises MQRC_SELECTOR_ERROR for a selector that a queue manager does not have.
    """
    known = by_selector(QMGR)
    values: list[Value] = []
    with core.engine_lock:
        core.check_running()
        for selector in selectors:
            if selector in _BLANK:
                values.append("")
            elif selector in _OF_MANAGER:
                values.append(_OF_MANAGER[selector](core))
            elif selector in known:
                values.append(core.registry.queue_manager.value(known[selector]))
            else:
                raise unknown_selector(selector)
    return values


def inquire_itself(
    core: Core, authority: UserAuthority | None, selectors: Sequence[int]
) -> Inquiry:
    """MQINQ on the queue manager, without a handle; ``authority`` None is not checked.

    Raises MQRC_NOT_AUTHORIZED, MQRC_SELECTOR_ERROR.
    """
    if authority is not None:
        authority.check_inquire()
    return Inquiry([*inquire_manager(core, selectors)], rc.MQRC_NONE)


def text_length(selector: int) -> int:
    """Return the length in bytes (UTF-8) to which MQINQ pads a character attribute.

    For an unknown selector it is 48, the length of a name.
    """
    return _text_lengths().get(selector, _NAME_LENGTH)


def opened_definition(core: Core, handle: Handle) -> QueueDefinition:
    """Return the definition of the queue or alias that a handle has opened.

    Raises MQRC_Q_DELETED when it was deleted.
    """
    definition = core.registry.find(handle.path.name)
    if definition is None:
        raise mq_error(rc.MQRC_Q_DELETED, f"{handle.path.name} was deleted")
    return definition


def check_opened(
    handle: Handle | DefinitionHandle, option: int, reason: int, option_name: str
) -> None:
    """Raise MQRC_HOBJ_ERROR for a closed handle, ``reason`` for one opened without ``option``.

    ``option_name`` is for the text of the error.
    """
    if not handle.is_open:
        raise mq_error(rc.MQRC_HOBJ_ERROR, "the handle is closed")
    if not handle.options & option:
        raise mq_error(reason, f"the object was not opened with {option_name}")


@cache
def by_selector(kind: str) -> Mapping[int, Attribute]:
    """Return the attributes of a kind of object that have a selector, by that selector."""
    attributes = (*kept_attributes_of(kind).values(), *attributes_of(kind).values())
    return MappingProxyType({a.selector: a for a in attributes if a.selector is not None})


def unknown_selector(selector: int) -> MQError:
    """Return the error MQRC_SELECTOR_ERROR for a selector that the object does not have."""
    return mq_error(rc.MQRC_SELECTOR_ERROR, f"selector {selector}")


def _of_queue(core: Core, handle: Handle, selector: int) -> Value | None:
    """Return an attribute of an open queue; None if only other kinds of queues have it.

    Raises MQRC_Q_DELETED, and MQRC_SELECTOR_ERROR when no kind of queue has it.
    """
    definition, queue = opened_definition(core, handle), handle.path.queue
    if selector in _BLANK:
        return ""
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
    """Return an attribute of a process.

    Raises MQRC_OBJECT_CHANGED when it was deleted, MQRC_SELECTOR_ERROR when no process has it.
    """
    definition = core.registry.named.get((PROCESS, name))
    if definition is None:
        raise mq_error(rc.MQRC_OBJECT_CHANGED, f"{PROCESS} {name} was deleted")
    if selector in _BLANK:
        return ""
    if selector == c.MQCA_PROCESS_NAME:
        return name
    attribute = by_selector(PROCESS).get(selector)
    if attribute is None:
        raise unknown_selector(selector)
    return definition.value(attribute)


@cache
def _text_lengths() -> dict[int, int]:
    """Return the length in bytes (UTF-8) of each character attribute, by selector."""
    rows = chain(ATTRIBUTES, kept_attributes_of(QLOCAL).values(), kept_attributes_of(QMGR).values())
    lengths = {a.selector: a.length for a in rows if a.is_text and a.selector is not None}
    return {**lengths, **_LENGTHS}


def set_attributes(core: Core, handle: Handle, values: Mapping[int, Value]) -> None:
    """MQSET: change attributes of the open queue, all or none; durable on return.

    A local queue accepts MQIA_INHIBIT_PUT and _GET, MQIA_TRIGGER_CONTROL, _TYPE, _DEPTH and
    _MSG_PRIORITY, and MQCA_TRIGGER_DATA of up to 64 bytes in UTF-8; an alias the first two; a
    remote queue the first. Raises MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_SET (C8), MQRC_SELECTOR_ERROR
    for other selectors, MQRC_INHIBIT_VALUE_ERROR and its like for a wrong value, MQRC_Q_DELETED;
    TypeError for text instead of a number or a number instead of text.
    """
    check_opened(handle, c.MQOO_SET, rc.MQRC_NOT_OPEN_FOR_SET, "MQOO_SET")
    definition = opened_definition(core, handle)
    known = by_selector(definition.kind)
    changes: dict[str, Value] = {}
    for selector, value in values.items():
        attribute = known.get(selector)
        if attribute is None or selector not in _SETTABLE:
            raise unknown_selector(selector)
        if not _takes(attribute, value):
            raise mq_error(_SETTABLE[selector], f"{attribute.keyword} {value!r}")
        changes[attribute.keyword] = value
    if changes:
        alter(core, definition.kind, definition.name, changes)


def _takes(attribute: Attribute, value: Value) -> bool:
    """Return True if an attribute takes a value: a number in its range, a text of its bytes.

    Raises TypeError for a wrong type.
    """
    if isinstance(value, str) != attribute.is_text:
        text = "text" if attribute.is_text else "a number"
        raise TypeError(f"{attribute.keyword} takes {text}, not {value!r}")
    if isinstance(value, str):
        return len(value.encode()) <= attribute.length
    is_word = any(value == number for _word, number in attribute.words)
    return is_word or attribute.low <= value <= attribute.high
