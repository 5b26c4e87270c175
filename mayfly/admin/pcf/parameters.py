"""The parameters of one PCF command: taken by number, with checks of type, value and repetition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi.pcf import PcfError, Structure

#: The reasons for a parameter that the command does not have, and for one that is repeated.
_WRONG_ID: Final = {
    k.MQCFT_INTEGER: k.MQRCCF_CFIN_PARM_ID_ERROR,
    k.MQCFT_INTEGER64: k.MQRCCF_CFIN_PARM_ID_ERROR,
    k.MQCFT_INTEGER_LIST: k.MQRCCF_CFIL_PARM_ID_ERROR,
    k.MQCFT_INTEGER64_LIST: k.MQRCCF_CFIL_PARM_ID_ERROR,
    k.MQCFT_STRING: k.MQRCCF_CFST_PARM_ID_ERROR,
    k.MQCFT_STRING_LIST: k.MQRCCF_CFSL_PARM_ID_ERROR,
    k.MQCFT_BYTE_STRING: k.MQRCCF_CFBS_PARM_ID_ERROR,
    k.MQCFT_GROUP: k.MQRCCF_CFGR_PARM_ID_ERROR,
    k.MQCFT_INTEGER_FILTER: k.MQRCCF_CFIF_PARM_ID_ERROR,
    k.MQCFT_STRING_FILTER: k.MQRCCF_CFSF_PARM_ID_ERROR,
    k.MQCFT_BYTE_STRING_FILTER: k.MQRCCF_CFBF_PARM_ID_ERROR,
}
_REPEATED: Final = {
    k.MQCFT_STRING: k.MQRCCF_CFST_DUPLICATE_PARM,
    k.MQCFT_STRING_LIST: k.MQRCCF_CFSL_DUPLICATE_PARM,
    k.MQCFT_BYTE_STRING: k.MQRCCF_CFBS_DUPLICATE_PARM,
}
_FILTERS: Final = (k.MQCFT_INTEGER_FILTER, k.MQCFT_STRING_FILTER, k.MQCFT_BYTE_STRING_FILTER)
_NUMBERS: Final = (k.MQCFT_INTEGER, k.MQCFT_INTEGER64)
_PREFIXES: Final = ("MQIA_", "MQCA_", "MQIACF_", "MQCACF_", "MQBACF_", "MQIACH_", "MQCACH_")


class Parameters:
    """The parameters of a command that are not taken yet.

    Each method takes one by its number. A parameter that remains belongs to another command, which
    :meth:`end` refuses.
    """

    def __init__(self, structures: Iterable[Structure], ccsid: int) -> None:
        """Take the structures of a message; ``ccsid`` is its CodedCharSetId.

        Raises PcfError for a parameter that is repeated.
        """
        self._ccsid = ccsid
        self._given: dict[int, Structure] = {}
        #: The conditions of an inquiry.
        self.filters: list[Structure] = []
        for each in structures:
            if each.type in _FILTERS:
                self.filters.append(each)
            elif each.parameter in self._given:
                reason = _REPEATED.get(each.type, k.MQRCCF_CFIN_DUPLICATE_PARM)
                raise PcfError(reason, f"{name_of(each.parameter)} is given twice", each.parameter)
            else:
                self._given[each.parameter] = each

    def has(self, parameter: int) -> bool:
        """Return True if a parameter is given and not taken yet."""
        return parameter in self._given

    def numbers_left(self) -> tuple[int, ...]:
        """Return the numbers of the parameters that are not taken yet, in their order."""
        return tuple(self._given)

    def text(self, parameter: int) -> str | None:
        """Take a text, without blanks at its end; None if it is not given."""
        structure = self._take(parameter, (k.MQCFT_STRING,))
        return None if structure is None else structure.text(self._ccsid)

    def needed_text(self, parameter: int) -> str:
        """Take a text that must be given and not be blank.

        Raises PcfError (MQRCCF_PARM_MISSING).
        """
        text = self.text(parameter)
        if not text:
            raise missing(parameter)
        return text

    def texts(self, parameter: int) -> list[str]:
        """Take a list of texts, or a single text as a list; empty if it is not given."""
        structure = self._take(parameter, (k.MQCFT_STRING_LIST, k.MQCFT_STRING))
        if structure is None:
            return []
        if structure.type == k.MQCFT_STRING:
            return [structure.text(self._ccsid)]
        return structure.texts(self._ccsid)

    def number(self, parameter: int, allowed: Iterable[int] = ()) -> int | None:
        """Take a number; None if it is not given.

        Raises PcfError (MQRCCF_PARM_VALUE_ERROR) for one that is not ``allowed``; empty allows all.
        """
        structure = self._take(parameter, _NUMBERS)
        if structure is None:
            return None
        assert isinstance(structure.value, int)
        choices = sorted(allowed)
        if choices and structure.value not in choices:
            raise wrong_value(parameter, structure.value, f"one of {choices}")
        return structure.value

    def peek_number(self, parameter: int) -> int | None:
        """Return a number without taking it; None if it is not given."""
        kept = dict(self._given)
        number = self.number(parameter)
        self._given = kept
        return number

    def peek_text(self, parameter: int) -> str | None:
        """Return a text without taking it; None if it is not given."""
        kept = dict(self._given)
        text = self.text(parameter)
        self._given = kept
        return text

    def numbers(self, parameter: int) -> list[int] | None:
        """Take a list of numbers, or a single number as a list; None if it is not given."""
        structure = self._take(parameter, (k.MQCFT_INTEGER_LIST, *_NUMBERS))
        if structure is None:
            return None
        values = (structure.value,) if isinstance(structure.value, int) else structure.value
        assert isinstance(values, tuple)
        return [each for each in values if isinstance(each, int)]

    def raw(self, parameter: int) -> bytes | None:
        """Take a byte string; None if it is not given."""
        structure = self._take(parameter, (k.MQCFT_BYTE_STRING,))
        if structure is None:
            return None
        assert isinstance(structure.value, bytes)
        return structure.value

    def filter_text(self, structure: Structure) -> str:
        """Return the value of a text filter as str."""
        return structure.text(self._ccsid)

    def end(self) -> None:
        """Raise PcfError (MQRCCF_*_PARM_ID_ERROR) for a parameter that the command does not have.

        Conditions count too, unless the command has removed them.
        """
        for structure in (*self._given.values(), *self.filters):
            raise not_known(structure)

    def _take(self, parameter: int, types: tuple[int, ...]) -> Structure | None:
        """Take a structure of one of ``types``, None if the parameter is not given.

        Raises PcfError (MQRCCF_*_PARM_ID_ERROR) if it is given with another type.
        """
        structure = self._given.get(parameter)
        if structure is None:
            return None
        if structure.type not in types:
            raise not_known(structure)
        return self._given.pop(parameter)


def missing(parameter: int) -> PcfError:
    """Return the error for a parameter that must be given (MQRCCF_PARM_MISSING)."""
    text = f"{name_of(parameter)} is missing"
    return PcfError(k.MQRCCF_PARM_MISSING, text, parameter)


def wrong_value(parameter: int, value: object, what: str) -> PcfError:
    """Return the error for a wrong value (MQRCCF_PARM_VALUE_ERROR); ``what`` is what is right."""
    text = f"{name_of(parameter)} {value!r} is not {what}"
    return PcfError(k.MQRCCF_PARM_VALUE_ERROR, text, parameter)


def not_known(structure: Structure) -> PcfError:
    """Return the error for a parameter, or a type of it, that the command does not have."""
    text = f"{name_of(structure.parameter)} of type {structure.type} is no parameter here"
    return PcfError(_WRONG_ID[structure.type], text, structure.parameter)


def name_of(parameter: int) -> str:
    """Return name and number of a parameter, the number alone for one that is not known here."""
    name = _names().get(parameter)
    return f"parameter {parameter}" if name is None else f"{name} ({parameter})"


@cache
def _names() -> Mapping[int, str]:
    """Return the names of parameters (MQIA_* and so on) by number."""
    found: dict[int, str] = {}
    for module in (c, k):
        for name, value in vars(module).items():
            if name.startswith(_PREFIXES) and isinstance(value, int):
                found.setdefault(value, name)
    return MappingProxyType(found)
