"""MQSET: the few attributes of an open queue that a program may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mayfly.engine.attributes.attribute import Attribute
from mayfly.engine.core import Core
from mayfly.engine.objects.administration import alter
from mayfly.engine.objects.inquire import (
    by_selector,
    check_opened,
    opened_definition,
    unknown_selector,
)
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.verbs.facts import Value

if TYPE_CHECKING:
    from mayfly.engine.handles import Handle

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


def set_attributes(core: Core, handle: Handle, values: Mapping[int, Value]) -> None:
    """MQSET: change attributes of the object opened, all or none; durable on return.

    A local queue has MQIA_INHIBIT_PUT and _GET, MQIA_TRIGGER_CONTROL, _TYPE, _DEPTH and
    _MSG_PRIORITY, and MQCA_TRIGGER_DATA (up to 64 characters); an alias has the first two, a remote
    queue the first. Raises MQRC_HOBJ_ERROR, MQRC_NOT_OPEN_FOR_SET (C8), MQRC_SELECTOR_ERROR for
    everything else, MQRC_INHIBIT_VALUE_ERROR and its like for a wrong value, MQRC_Q_DELETED;
    TypeError for text in the place of a number or the other way round.
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
    if isinstance(value, str) != attribute.is_text:
        said = "text" if attribute.is_text else "a number"
        raise TypeError(f"{attribute.keyword} takes {said}, not {value!r}")
    if isinstance(value, str):
        return len(value.encode()) <= attribute.length
    is_word = any(value == number for _word, number in attribute.words)
    return is_word or attribute.low <= value <= attribute.high
