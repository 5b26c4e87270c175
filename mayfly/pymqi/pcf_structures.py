"""The PCF structures of pymqi: CFH, and one class for each structure that a message may have."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import pcf
from mayfly.mqi.layout import number
from mayfly.pymqi.structures import MQOpts

_HEADER_BYTES: Final = 36
_ALIGNMENT: Final = 4


class CFH(
    MQOpts,
    fields=[
        number("Type", k.MQCFT_COMMAND),
        number("StrucLength", _HEADER_BYTES),
        number("Version", k.MQCFH_VERSION_1),
        number("Command"),
        number("MsgSeqNumber", 1),
        number("Control", k.MQCFC_LAST),
        number("CompCode", c.MQCC_OK),
        number("Reason"),
        number("ParameterCount"),
    ],
):
    """The header of a PCF message, MQCFH."""


class PcfStructure:
    """A structure of a PCF message: ``CFIN(Parameter=20, Value=5).pack()``.

    Fields are attributes, and by ``structure["Value"]``. ``Type``, ``StrucLength``, counts and
    lengths follow from the value. Text is encoded as UTF-8.
    """

    __slots__ = (
        "CodedCharSetId",
        "FilterValue",
        "Operator",
        "Parameter",
        "String",
        "Strings",
        "Value",
        "Values",
    )
    #: MQCFT_*, the name of the field with the value, and the fields in their order.
    _type: ClassVar[int]
    _value_name: ClassVar[str]
    _fields: ClassVar[tuple[str, ...]]
    _initial: ClassVar[Any] = 0

    def __init__(self, **kw: Any) -> None:
        """Set the fields that ``kw`` names.

        A length of bytes pads the value with NULs, or cuts it; other fields that follow from the
        value are ignored. Raises AttributeError for an unknown field, TypeError for a value of
        another type, ValueError for one out of range.
        """
        for name in self._fields:
            if name in PcfStructure.__slots__:
                setattr(self, name, 0)
        setattr(self, self._value_name, self._initial)
        for name, value in kw.items():
            if name in PcfStructure.__slots__ and name in self._fields:
                setattr(self, name, value)
            elif name not in self._fields:
                raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        self._resize(kw)
        try:
            self.pack()
        except pcf.PcfError as error:
            raise ValueError(f"{type(self).__name__}: {error.detail}") from error

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Inform type checkers that fields are attributes."""

    def __getitem__(self, name: str) -> Any:
        if name not in self._fields:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        return getattr(self, name)

    def __setitem__(self, name: str, value: object) -> None:
        setattr(self, name, value)

    @property
    def Type(self) -> int:
        """The type of the structure, MQCFT_*."""
        return self._type

    @property
    def StrucLength(self) -> int:
        """The length of the structure in bytes, with its padding."""
        return len(self.pack())

    def set(self, **kw: object) -> None:
        """Set fields by name; raises AttributeError for an unknown field."""
        for name, value in kw.items():
            setattr(self, name, value)

    def get(self) -> dict[str, Any]:
        """Return the fields as a new dictionary of value by name."""
        return {name: getattr(self, name) for name in self._fields}

    def get_length(self) -> int:
        """Return the length of the packed structure in bytes."""
        return self.StrucLength

    def pack(self) -> bytes:
        """Return the structure as bytes, low byte first, padded to a multiple of four.

        Raises TypeError for a value of another type, PcfError for one out of range.
        """
        return pcf.pack_structure(
            pcf.Structure(
                self._type,
                self.Parameter,
                self._packable(getattr(self, self._value_name)),
                self.Operator if "Operator" in self._fields else 0,
                self.CodedCharSetId if "CodedCharSetId" in self._fields else c.MQCCSI_DEFAULT,
            )
        )

    def unpack(self, buff: bytes) -> None:
        """Set the fields from a packed structure.

        Raises ValueError for bytes that are not one structure of this type.
        """
        header = struct.pack("<9i", k.MQCFT_USER, _HEADER_BYTES, 1, 0, 1, 1, 0, 0, 1)
        try:
            (found,) = pcf.unpack(header + buff).structures
        except pcf.PcfError as error:
            raise ValueError(f"{type(self).__name__}: {error.detail}") from error
        if found.type != self._type:
            raise ValueError(f"{type(self).__name__} has type {self._type}, not {found.type}")
        self.Parameter = found.parameter
        self.Operator, self.CodedCharSetId = found.operator, found.ccsid
        value = found.value
        setattr(self, self._value_name, list(value) if isinstance(value, tuple) else value)

    def _packable(self, value: Any) -> Any:
        """Return a value as ``mayfly.mqi.pcf`` has it; raises TypeError for another type."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{self._value_name} takes an integer, not {type(value).__name__}")
        return value

    def _resize(self, kw: Mapping[str, Any]) -> None:
        """Give the value its form: bytes have the length that ``kw`` names, lists are lists."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in self.get().items())})"


class _Bytes(PcfStructure):
    """A structure whose value is bytes; ``str`` is encoded."""

    _initial = b""

    @property
    def StringLength(self) -> int:
        """How many bytes the value has."""
        return len(getattr(self, self._value_name))

    FilterValueLength = StringLength

    def _packable(self, value: Any) -> bytes:
        return _bytes_of(self._value_name, value)

    def _resize(self, kw: Mapping[str, Any]) -> None:
        raw = self._packable(getattr(self, self._value_name))
        length_bytes = kw.get("StringLength", kw.get("FilterValueLength", len(raw)))
        setattr(self, self._value_name, raw[:length_bytes].ljust(length_bytes, b"\0"))


class _List(PcfStructure):
    """A structure whose value is a list."""

    _initial = ()

    @property
    def Count(self) -> int:
        """How many values there are."""
        return len(getattr(self, self._value_name))

    def _resize(self, kw: Mapping[str, Any]) -> None:
        setattr(self, self._value_name, list(self._packable(getattr(self, self._value_name))))

    def _packable(self, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{self._value_name} takes a list, not {type(value).__name__}")
        return tuple(value)


class CFIN(PcfStructure):
    """A number of 32 bits, MQCFIN."""

    _type = k.MQCFT_INTEGER
    _value_name = "Value"
    _fields = ("Type", "StrucLength", "Parameter", "Value")


class CFIN64(CFIN):
    """A number of 64 bits, MQCFIN64."""

    _type = k.MQCFT_INTEGER64


class CFIL(_List):
    """A list of numbers of 32 bits, MQCFIL."""

    _type = k.MQCFT_INTEGER_LIST
    _value_name = "Values"
    _fields = ("Type", "StrucLength", "Parameter", "Count", "Values")


class CFIL64(CFIL):
    """A list of numbers of 64 bits, MQCFIL64."""

    _type = k.MQCFT_INTEGER64_LIST


class CFST(_Bytes):
    """A text, MQCFST."""

    _type = k.MQCFT_STRING
    _value_name = "String"
    _fields = ("Type", "StrucLength", "Parameter", "CodedCharSetId", "StringLength", "String")


class CFBS(_Bytes):
    """Bytes, MQCFBS."""

    _type = k.MQCFT_BYTE_STRING
    _value_name = "String"
    _fields = ("Type", "StrucLength", "Parameter", "StringLength", "String")


class CFSL(_List):
    """A list of texts, MQCFSL; all have the length of the longest."""

    _type = k.MQCFT_STRING_LIST
    _value_name = "Strings"
    _fields = (
        "Type",
        "StrucLength",
        "Parameter",
        "CodedCharSetId",
        "Count",
        "StringLength",
        "Strings",
    )

    def _packable(self, value: Any) -> tuple[bytes, ...]:
        return tuple(_bytes_of("Strings", each) for each in super()._packable(value))

    @property
    def StringLength(self) -> int:
        """The length of each text in bytes: that of the longest."""
        return max(map(len, self["Strings"]), default=0)


class CFIF(PcfStructure):
    """A condition on a number, MQCFIF."""

    _type = k.MQCFT_INTEGER_FILTER
    _value_name = "FilterValue"
    _fields = ("Type", "StrucLength", "Parameter", "Operator", "FilterValue")


class CFSF(_Bytes):
    """A condition on a text, MQCFSF."""

    _type = k.MQCFT_STRING_FILTER
    _value_name = "FilterValue"
    _fields = (
        "Type",
        "StrucLength",
        "Parameter",
        "Operator",
        "CodedCharSetId",
        "FilterValueLength",
        "FilterValue",
    )


class CFBF(_Bytes):
    """A condition on bytes, MQCFBF."""

    _type = k.MQCFT_BYTE_STRING_FILTER
    _value_name = "FilterValue"
    _fields = (
        "Type",
        "StrucLength",
        "Parameter",
        "Operator",
        "FilterValueLength",
        "FilterValue",
    )


class CFGR(
    MQOpts,
    fields=[
        number("Type", k.MQCFT_GROUP),
        number("StrucLength", 16),
        number("Parameter"),
        number("ParameterCount"),
    ],
):
    """The head of a group, MQCFGR; its ``ParameterCount`` members are packed behind it."""


def value_of(structure: pcf.Structure) -> Any:
    """Return the value of a structure as pymqi does: a list for several values.

    Bytes have the NULs with which the structure is padded to a multiple of four.
    """
    value = structure.value
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, bytes):
        return value.ljust(len(value) + -len(value) % _ALIGNMENT, b"\0")
    return value


def _bytes_of(name: str, value: Any) -> bytes:
    """Return a value of bytes, or a text in UTF-8; raises TypeError for another type."""
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, (bytes, bytearray)):
        raise TypeError(f"{name} takes bytes, not {type(value).__name__}")
    return bytes(value)
