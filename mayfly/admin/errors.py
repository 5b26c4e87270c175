"""Errors in attributes given to an operation: reason code, attribute, value."""

from __future__ import annotations

from typing import Final

from mayfly.engine.face.administration import Attribute
from mayfly.mqi import reasons as rc
from mayfly.mqi.command_constants import (
    MQRCCF_ATTR_VALUE_ERROR,
    MQRCCF_ATTR_VALUE_FIXED,
    MQRCCF_LIKE_OBJECT_WRONG_TYPE,
    MQRCCF_PARM_CONFLICT,
    MQRCCF_PARM_MISSING,
)
from mayfly.mqi.errors import ObjectError, OptionsError
from mayfly.verbs.facts import Value

_NAMES: Final = {
    MQRCCF_ATTR_VALUE_ERROR: "MQRCCF_ATTR_VALUE_ERROR",
    MQRCCF_ATTR_VALUE_FIXED: "MQRCCF_ATTR_VALUE_FIXED",
    MQRCCF_LIKE_OBJECT_WRONG_TYPE: "MQRCCF_LIKE_OBJECT_WRONG_TYPE",
    MQRCCF_PARM_CONFLICT: "MQRCCF_PARM_CONFLICT",
    MQRCCF_PARM_MISSING: "MQRCCF_PARM_MISSING",
}


class AdminError(OptionsError):
    """An attribute is wrong: its MQSC keyword, its value, and what is wrong in words.

    The reason code is one of MQRCCF_*, or MQRC_SELECTOR_ERROR for an attribute that is not there.
    """

    def __init__(self, reason: int, attribute: str, value: Value, detail: str) -> None:
        """Say what is wrong with which attribute."""
        super().__init__(reason, detail)
        self.attribute = attribute
        self.value = value

    def __str__(self) -> str:
        name = _NAMES.get(self.reason) or rc.reason_name(self.reason)
        return f"{name} ({self.reason}): {self.detail}"


class WrongValue(AdminError):
    """A value does not suit its attribute: ``complaint`` follows the name of the attribute.

    Where ``shows_value`` it follows name and value.
    """

    def __init__(
        self, attribute: Attribute, value: Value, complaint: str, *, shows_value: bool = False
    ) -> None:
        """Say what is wrong with the value."""
        said = f"{attribute.keyword}({value}){complaint}"
        super().__init__(MQRCCF_ATTR_VALUE_ERROR, attribute.keyword, value, said)
        self.complaint = complaint
        self.shows_value = shows_value


class WrongObject(AdminError):
    """The given attributes make no object: one is missing, or two contradict."""


class UnknownModel(ObjectError):
    """The object that a new one is to be like is not there; ``name`` is its name."""

    def __init__(self, kind: str, name: str) -> None:
        """Name the object."""
        super().__init__(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{kind} {name} is not defined")
        self.name = name


def unknown_attribute(kind: str, keyword: str, value: Value) -> AdminError:
    """Return the error for an attribute that a kind of object does not have."""
    said = f"{keyword} is no attribute of {kind}"
    return AdminError(rc.MQRC_SELECTOR_ERROR, keyword, value, said)


def fixed_attribute(keyword: str, value: Value) -> AdminError:
    """Return the error for an attribute that an object keeps from its definition on."""
    return AdminError(MQRCCF_ATTR_VALUE_FIXED, keyword, value, f"{keyword} cannot be changed")


def missing_attribute(keyword: str, why: str = "") -> WrongObject:
    """Return the error for an attribute without which there is no such object."""
    said = f"{keyword} is missing" + (f": {why}" if why else "")
    return WrongObject(MQRCCF_PARM_MISSING, keyword, "", said)
