"""PCF of pymqi: PCFExecute, filters, byte strings, and the structures of a message."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from mayfly.mqi import command_constants as k
from mayfly.mqi import constants as c
from mayfly.mqi import pcf
from mayfly.mqi import reasons as rc
from mayfly.mqi.layout import number
from mayfly.pymqi import CMQC, CMQCFC
from mayfly.pymqi.connection import QueueManager
from mayfly.pymqi.errors import Error, MQMIError, PYIFError
from mayfly.pymqi.objects import Queue
from mayfly.pymqi.structures import GMO, MD, OD, PMO, MQOpts

_COMMAND_QUEUE: Final = b"SYSTEM.ADMIN.COMMAND.QUEUE"
#: Parameters that are lists of attributes: a single number is a list of one.
_ATTRIBUTE_LISTS: Final = frozenset(
    value
    for name, value in vars(CMQCFC).items()
    if name.startswith(("MQIACF_", "MQIACH_")) and name.endswith("_ATTRS")
)
_OPERATORS: Final = {
    name: getattr(CMQCFC, f"MQCFOP_{name.upper()}")
    for name in (
        "less",
        "equal",
        "greater",
        "not_less",
        "not_equal",
        "not_greater",
        "like",
        "not_like",
        "contains",
        "excludes",
        "contains_gen",
        "excludes_gen",
    )
}
_TENTH_MS: Final = 100

#: The parameters of a command: parameters by number, or structures.
Arguments: TypeAlias = "Mapping[int, Any] | Sequence[Any]"
#: The result of one message: values by parameter number, groups as lists of such.
Result: TypeAlias = "dict[int, Any]"


class ByteString:
    """Bytes that a command takes as a byte string, MQCFBS, and not as a text."""

    def __init__(self, value: bytes) -> None:
        """Take the bytes."""
        self.value = value

    def __len__(self) -> int:
        return len(self.value)


class _Condition:
    """A condition of an inquiry: the number of an attribute, an operator and a value."""

    def __init__(self, selector: int, value: Any, operator: int) -> None:
        """Take attribute number, value and MQCFOP_*; a ``str`` value is encoded."""
        self.selector = selector
        self.value = value.encode() if isinstance(value, str) else value
        self.operator = operator

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.selector}:{self.value!r}:{self.operator}>"


class StringFilter(_Condition):
    """A condition on a text."""


class IntegerFilter(_Condition):
    """A condition on a number."""


class FilterOperator:
    """The operator of a filter; a call with a value returns the condition."""

    operator_mapping = _OPERATORS

    def __init__(self, selector: int, operator_name: str) -> None:
        """Take an attribute number and the name of an operator, such as ``greater``.

        Raises Error for a number of no attribute, and an unknown operator.
        """
        if CMQC.MQIA_FIRST <= selector <= CMQC.MQIA_LAST:
            self.filter_cls: type[_Condition] = IntegerFilter
        elif CMQC.MQCA_FIRST <= selector <= CMQC.MQCA_LAST:
            self.filter_cls = StringFilter
        else:
            raise Error(f"selector [{selector}] is neither of a number nor of a text")
        if operator_name not in _OPERATORS:
            raise Error(f"Operator [{operator_name}] is not supported.")
        self.selector, self.operator = selector, _OPERATORS[operator_name]

    def __call__(self, value: Any) -> _Condition:
        return self.filter_cls(self.selector, value, self.operator)


class Filter:
    """Makes conditions: ``Filter(CMQC.MQIA_CURRENT_Q_DEPTH).greater(0)``."""

    def __init__(self, selector: int) -> None:
        """Take the number of an attribute, MQIA_* or MQCA_*."""
        self.selector = selector

    def __getattr__(self, name: str) -> FilterOperator:
        """Return the operator of this name; raises Error for an unknown one."""
        if name.startswith("__"):
            raise AttributeError(name)
        return FilterOperator(self.selector, name)


class PCFExecute(QueueManager):
    """Runs PCF commands: ``PCFExecute(qmgr).MQCMD_INQUIRE_Q({CMQC.MQCA_Q_NAME: b"*"})``.

    A command takes parameters by number, or structures such as CFST, and conditions; it returns a
    list of the answer's messages, each a dictionary of value by parameter number. Texts are bytes,
    padded with blanks. A command that fails raises MQMIError with its reason code (MQRCCF_*), and
    the text of the error as a note.
    """

    qm: QueueManager

    def __init__(
        self,
        name: QueueManager | str | bytes | None = None,
        disconnect_on_exit: bool = True,
        model_queue_name: bytes = b"SYSTEM.DEFAULT.MODEL.QUEUE",
        dynamic_queue_name: bytes = b"PYMQPCF.*",
        command_queue_name: bytes = _COMMAND_QUEUE,
        response_wait_interval: int = 5_000,
        convert: bool = False,
    ) -> None:
        """Use a connection, or make one to the queue manager of this name; open a reply queue.

        Replies are waited for ``response_wait_interval`` ms, which is also the life of a command.
        The command server of a queue manager of this process is started if it does not run. Raises
        MQMIError as a connection or an open does.
        """
        if isinstance(name, QueueManager):
            super().__init__(None, disconnect_on_exit)
            self.qm = name
        else:
            super().__init__(name or "", disconnect_on_exit)
            self.qm = self
        self.command_queue_name = command_queue_name
        self.response_wait_interval = response_wait_interval
        self.convert = convert
        _start_command_server(self.qm, command_queue_name)
        od = OD(ObjectName=model_queue_name, DynamicQName=dynamic_queue_name)
        self.reply_queue: Queue | None = Queue(self.qm, od, CMQC.MQOO_INPUT_EXCLUSIVE)
        self.reply_queue_name: bytes | None = od.ObjectName.strip()

    @property
    def is_connected(self) -> bool:
        """True if its connection is connected and not broken, and the reply queue is open."""
        if self.qm is self:
            return super().is_connected and self.reply_queue is not None
        return self.qm.is_connected and self.reply_queue is not None

    def __getattr__(self, name: str) -> Any:
        """Return the command of this name, MQCMD_*; ``CMQCFC.MQCMD_*`` as well."""
        if name == "CMQCFC":
            return self
        if name.startswith("MQCMD_") and hasattr(CMQCFC, name):
            return _command(self, getattr(CMQCFC, name))
        raise AttributeError(f"{type(self).__name__} has no {name}")

    def execute(
        self, command: int, arguments: Arguments = (), filters: Sequence[Any] = ()
    ) -> list[Result]:
        """Run the command with this number, MQCMD_*; see the class.

        Raises MQMIError: MQRC_NO_MSG_AVAILABLE when no answer comes in time, and the reason code of
        a command that fails. Raises TypeError for an argument that has no form in PCF, PYIFError
        after :meth:`disconnect`.
        """
        if self.reply_queue is None or self.reply_queue_name is None:
            raise PYIFError("not connected: the reply queue is closed")
        packed = [*_packed(arguments, self.qm.bytes_encoding), *map(_packed_filter, filters)]
        header = CFH(
            Type=CMQCFC.MQCFT_COMMAND_XR,
            Version=CMQCFC.MQCFH_VERSION_3,
            Command=command,
            ParameterCount=len(packed),
        )
        md = MD(
            Format=CMQC.MQFMT_ADMIN,
            MsgType=CMQC.MQMT_REQUEST,
            ReplyToQ=self.reply_queue_name,
            Feedback=CMQC.MQFB_NONE,
            Expiry=max(self.response_wait_interval // _TENTH_MS, 1),
            Report=CMQC.MQRO_PASS_DISCARD_AND_EXPIRY | CMQC.MQRO_DISCARD_MSG,
        )
        body = header.pack() + b"".join(packed)
        pmo = PMO(Options=CMQC.MQPMO_NO_SYNCPOINT)
        self.qm.put1(self.command_queue_name, body, md, pmo)
        return self._answer(md.MsgId)

    def disconnect(self) -> None:
        """Close the reply queue, and the connection if it was made here; does nothing twice."""
        queue, self.reply_queue, self.reply_queue_name = self.reply_queue, None, None
        if queue is None:
            return
        # Where the connection is broken, the temporary queue is gone.
        with suppress(MQMIError):
            queue.close()
        if self.qm is self:
            super().disconnect()

    @staticmethod
    def stringify_keys(rawDict: Mapping[int, Any]) -> dict[int | str, Any]:
        """Return a copy with the names of attributes (MQIA_*, MQCA_*) in place of their numbers.

        A number without a name stays. Raises TypeError for a ``str`` value.
        """
        named: dict[int | str, Any] = {}
        for key, value in rawDict.items():
            if isinstance(value, str):
                raise TypeError(f"values are bytes, not str: {key!r}: {value!r}")
            prefix = "MQCA_" if isinstance(value, bytes) else "MQIA_"
            named[_NAMES[prefix].get(key, key)] = value
        return named

    stringifyKeys = stringify_keys

    @staticmethod
    def unpack(message: bytes) -> tuple[Result, CFH]:
        """Return the values of a PCF message by parameter number, and its header.

        A group is a list of dictionaries, a filter a pair of operator and value. Either byte order
        is read. Raises MQMIError with the codes of a header that says that a command failed, or
        with MQRCCF_* for bytes that are no PCF message.
        """
        big_endian = pcf.is_big_endian_message(message)
        try:
            found = pcf.unpack(message, big_endian=big_endian)
        except pcf.PcfError as error:
            raise MQMIError(CMQC.MQCC_FAILED, error.reason) from error
        header = found.header
        if header.comp:
            failure = MQMIError(header.comp, header.reason)
            for each in found.structures:
                if each.parameter == k.MQCACF_AUX_ERROR_DATA_STR_1:
                    failure.add_note(each.text())
            raise failure
        return _values(found.structures), CFH(
            Type=header.type,
            Version=header.version,
            Command=header.command,
            MsgSeqNumber=header.sequence_number,
            Control=header.control,
            CompCode=header.comp,
            Reason=header.reason,
            ParameterCount=header.parameter_count,
        )

    def _answer(self, msg_id: bytes) -> list[Result]:
        """Get the messages of the answer to a command, and return their values."""
        options = CMQC.MQGMO_NO_SYNCPOINT | CMQC.MQGMO_FAIL_IF_QUIESCING | CMQC.MQGMO_WAIT
        if self.convert:
            options |= CMQC.MQGMO_CONVERT
        gmo = GMO(
            Options=options,
            Version=CMQC.MQGMO_VERSION_2,
            MatchOptions=CMQC.MQMO_MATCH_CORREL_ID,
            WaitInterval=self.response_wait_interval,
        )
        assert self.reply_queue is not None
        results = []
        while True:
            try:
                message = self.reply_queue.get(None, MD(CorrelId=msg_id), gmo)
            except MQMIError as error:
                if error.reason == rc.MQRC_NO_MSG_AVAILABLE:
                    error.add_note("no command server has answered (docs/ADMINISTRATION.md)")
                raise
            result, header = self.unpack(message)
            results.append(result)
            if header.Control == CMQCFC.MQCFC_LAST:
                return results


_NAMES: Final = {
    prefix: {value: name for name, value in vars(CMQC).items() if name.startswith(prefix)}
    for prefix in ("MQIA_", "MQCA_")
}


def _command(execute: PCFExecute, number: int) -> Callable[..., list[Result]]:
    """Return a function that runs a command with its arguments and filters."""

    def run(arguments: Arguments = (), filters: Sequence[Any] = ()) -> list[Result]:
        return execute.execute(number, arguments, filters)

    return run


def _start_command_server(manager: QueueManager, queue: bytes) -> None:
    """Start the command server of a queue manager in this process; elsewhere it runs already."""
    connection = manager.connection()
    local = getattr(connection, "manager", None)
    if local is None or queue.strip() != _COMMAND_QUEUE:
        return
    # A client of a server has no use for administration.
    from mayfly.services.command_server import start_command_server

    start_command_server(local)


def _packed(arguments: Arguments, encoding: str) -> list[bytes]:
    """Return the parameters of a command as bytes, one item for each structure.

    ``arguments`` are values by parameter number, or structures. A str is encoded in ``encoding``.
    Raises TypeError for a value that no structure can hold.
    """
    if isinstance(arguments, Mapping):
        return [_parameter(number, value, encoding) for number, value in arguments.items()]
    return [structure.pack() for structure in arguments]


def _parameter(number: int, value: Any, encoding: str) -> bytes:
    """Return parameter ``number`` as a packed structure of the type that its value needs.

    A str is encoded in ``encoding``. Raises TypeError for a value that no structure can hold.
    """
    if isinstance(value, (str, bytes)):
        return CFST(Parameter=number, String=_raw(value, encoding)).pack()
    if isinstance(value, ByteString):
        return CFBS(Parameter=number, String=value.value).pack()
    if isinstance(value, int):
        if number in _ATTRIBUTE_LISTS:
            return CFIL(Parameter=number, Values=[value]).pack()
        return CFIN(Parameter=number, Value=value).pack()
    if isinstance(value, (list, tuple)):
        if all(isinstance(each, int) for each in value):
            return CFIL(Parameter=number, Values=list(value)).pack()
        return CFSL(Parameter=number, Strings=[_raw(each, encoding) for each in value]).pack()
    raise TypeError(f"parameter {number} takes no {type(value).__name__}: {value!r}")


def _packed_filter(condition: Any) -> bytes:
    """Return a condition as a packed MQCFIF or MQCFSF; a structure is packed as it is."""
    if not isinstance(condition, _Condition):
        packed: bytes = condition.pack()
        return packed
    structure = CFSF if isinstance(condition, StringFilter) else CFIF
    return structure(
        Parameter=condition.selector, Operator=condition.operator, FilterValue=condition.value
    ).pack()


def _raw(value: str | bytes, encoding: str) -> bytes:
    """Return a text as bytes in the codec ``encoding``; bytes come back unchanged."""
    return value.encode(encoding) if isinstance(value, str) else value


def _values(structures: Iterable[pcf.Structure]) -> Result:
    """Return the values of structures by parameter number; groups of one number are a list."""
    found: Result = {}
    for each in structures:
        if each.type == k.MQCFT_GROUP:
            assert isinstance(each.value, tuple)
            members = [member for member in each.value if isinstance(member, pcf.Structure)]
            found.setdefault(each.parameter, []).append(_values(members))
        elif each.operator:
            found[each.parameter] = each.operator, value_of(each)
        else:
            found[each.parameter] = value_of(each)
    return found


# The PCF structures of pymqi: CFH, and one class for each structure that a message may have


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
