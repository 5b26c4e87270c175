"""pymqi's MessageHandle: the properties of a message, by number for PMO and GMO."""

from __future__ import annotations

from itertools import count
from typing import Any, Protocol
from weakref import WeakValueDictionary

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.properties.folders import Description, Property
from mayfly.properties.values import DATA_TYPES, FIXED_BYTES, raw_value
from mayfly.pymqi import handle_contents
from mayfly.pymqi.errors import MQMIError, mqmi_error
from mayfly.pymqi.property_structures import CMHO, DMHO, DMPO, PD, SMPO
from mayfly.pymqi.structures import MQOpts
from mayfly.pymqi.variable_strings import Fields


class Connected(Protocol):
    """A connection of pymqi, as a message handle knows it."""

    def get_handle(self) -> Connection:
        """Return the connection itself; raises PYIFError when not connected."""


_numbers = count(1)
#: The message handles that are in use; one ends with the last who knows its number.
_known: WeakValueDictionary[int, handle_contents.MessageHandle] = WeakValueDictionary()


class HandleNumber(int):
    """The number of a message handle, which keeps it: a PMO or GMO may hold nothing else of it."""

    target: handle_contents.MessageHandle


class MessageHandle:
    """A message handle; ``msg_handle`` is its number for PMO.OriginalMsgHandle and GMO.MsgHandle.

    Those are read from PMO version 3 and GMO version 4 on.
    """

    #: How many bytes of a value are asked for where a program does not say.
    default_value_length = 64

    def __init__(self, qmgr: Connected | None = None, cmho: CMHO | None = None) -> None:
        """MQCRTMH; raises MQRC_CMHO_ERROR, MQRC_OPTIONS_ERROR."""
        self.conn_handle = None if qmgr is None else qmgr.get_handle()
        cmho = CMHO() if cmho is None else cmho
        try:
            _check(cmho, c.MQCMHO_STRUC_ID, rc.MQRC_CMHO_ERROR)
            target = handle_contents.MessageHandle(cmho.Options)
        except MQError as error:
            raise mqmi_error(error) from error
        self.msg_handle = HandleNumber(next(_numbers))
        self.msg_handle.target = target
        _known[int(self.msg_handle)] = target
        self.properties = _Properties(self.conn_handle, self.msg_handle)

    def dlt(self, dmho: DMHO | None = None) -> None:
        """MQDLTMH: its number is not valid any more; raises MQRC_DMHO_ERROR, MQRC_HMSG_ERROR."""
        dmho = DMHO() if dmho is None else dmho
        try:
            _check(dmho, c.MQDMHO_STRUC_ID, rc.MQRC_DMHO_ERROR)
            _check_options(dmho, c.MQDMHO_NONE)
            handle_of(self.msg_handle)
        except MQError as error:
            raise mqmi_error(error) from error
        del _known[int(self.msg_handle)]


class _Properties:
    """The properties of a message handle, by name (text, or its UTF-8)."""

    def __init__(self, conn_handle: Connection | None, msg_handle: HandleNumber) -> None:
        """Hold the connection, if any, and the number."""
        self.conn_handle = conn_handle
        self.msg_handle = msg_handle

    def __getitem__(self, name: str | bytes) -> Any:
        return self.get(name)

    def __setitem__(self, name: str | bytes, value: Any) -> None:
        self.set(name, value)

    def get(
        self,
        name: str | bytes,
        default: Any = None,
        max_value_length: int | None = None,
        impo_options: int = c.MQIMPO_INQ_FIRST,
        pd: int = c.MQPD_NONE,
        property_type: int = c.MQTYPE_AS_SET,
    ) -> Any:
        """MQINQMP: return a value, ``default`` instead of MQRC_PROPERTY_NOT_AVAILABLE if given.

        ``max_value_length`` is in bytes. ``property_type`` counts with MQIMPO_CONVERT_TYPE. Raises
        MQMIError; for MQRC_PROPERTY_VALUE_TOO_BIG it holds in ``value`` what fits and in
        ``dataLength`` how long the value is.
        """
        max_bytes = max_value_length or MessageHandle.default_value_length
        try:
            if pd != c.MQPD_NONE:
                raise mq_error(rc.MQRC_PD_ERROR, f"PD.Options {pd:#x}")
            found = self._target().inquire(_text(name), property_type, impo_options, max_bytes)
        except handle_contents.ValueTooBig as error:
            raise _too_big(error, max_bytes) from error
        except MQError as error:
            if error.reason == rc.MQRC_PROPERTY_NOT_AVAILABLE and default is not None:
                return default
            raise mqmi_error(error) from error
        return found.value

    def set(
        self,
        name: str | bytes,
        value: Any,
        property_type: int = c.MQTYPE_STRING,
        value_length: int = c.MQVL_NULL_TERMINATED,
        pd: PD | None = None,
        smpo: SMPO | None = None,
    ) -> None:
        """MQSETMP: set a property; ``value_length`` is in bytes, for text at first all of it.

        Raises MQMIError MQRC_BUFFER_LENGTH_ERROR for a length that is not that of the type,
        MQRC_SMPO_ERROR, MQRC_PD_ERROR and as ``MessageHandle.set`` of the handle_contents.
        """
        pd = PD() if pd is None else pd
        smpo = SMPO() if smpo is None else smpo
        try:
            _check(smpo, c.MQSMPO_STRUC_ID, rc.MQRC_SMPO_ERROR)
            _check(pd, c.MQPD_STRUC_ID, rc.MQRC_PD_ERROR)
            if pd.Options != c.MQPD_NONE:
                raise mq_error(rc.MQRC_PD_ERROR, f"PD.Options {pd.Options:#x}")
            given = _measured(value, property_type, value_length)
            description = Description(pd.Support, pd.Context, pd.CopyOptions)
            target = self._target()
            target.set(_text(name), property_type, given, description, smpo.Options)
        except MQError as error:
            raise mqmi_error(error) from error

    def dlt(self, name: str | bytes, dmpo: DMPO | None = None) -> None:
        """MQDLTMP: remove a property; raises MQRC_DMPO_ERROR, MQRC_PROPERTY_NOT_AVAILABLE."""
        dmpo = DMPO() if dmpo is None else dmpo
        try:
            _check(dmpo, c.MQDMPO_STRUC_ID, rc.MQRC_DMPO_ERROR)
            self._target().delete(_text(name), dmpo.Options)
        except MQError as error:
            raise mqmi_error(error) from error

    def _target(self) -> handle_contents.MessageHandle:
        if self.conn_handle is not None and not self.conn_handle.is_open:
            raise mq_error(rc.MQRC_HCONN_ERROR, "the connection of the message handle is closed")
        return handle_of(self.msg_handle)


def handle_of(number: int) -> handle_contents.MessageHandle:
    """Return the message handle of a number; raises MQRC_HMSG_ERROR."""
    found = _known.get(int(number))
    if found is None:
        raise mq_error(rc.MQRC_HMSG_ERROR, f"message handle {int(number)}")
    return found


def properties_of_put(given: Fields, *, publishes: bool) -> list[Property]:
    """Return the properties that the message handles of PMO fields put, or publish.

    A publication has those whose copy options say so. Raises MQRC_HMSG_ERROR, MQRC_ACTION_ERROR.
    """
    if given["Version"] < c.MQPMO_VERSION_3:
        return []
    original, new = _optional(given["OriginalMsgHandle"]), _optional(given["NewMsgHandle"])
    properties = handle_contents.properties_to_put(original, new, given["Action"])
    return handle_contents.copied(properties, c.MQCOPY_PUBLISH) if publishes else properties


def note_put(given: Fields, properties: list[Property]) -> None:
    """Let the new message handle of PMO fields hold what was put."""
    if given["Version"] >= c.MQPMO_VERSION_3:
        new = _optional(given["NewMsgHandle"])
        if new is not None:
            new.hold(properties)


def handle_of_get(given: Fields) -> handle_contents.MessageHandle | None:
    """Return the message handle of GMO fields, None without; raises MQRC_HMSG_ERROR.

    With MQGMO_PROPERTIES_IN_HANDLE there must be one; with the other options it is not looked at.
    """
    options = given["Options"]
    has_field = given["Version"] >= c.MQGMO_VERSION_4
    if options & c.MQGMO_PROPERTIES_IN_HANDLE:
        return handle_of(given["MsgHandle"] if has_field else c.MQHM_NONE)
    others = c.MQGMO_NO_PROPERTIES | c.MQGMO_PROPERTIES_FORCE_MQRFH2
    if not has_field or options & (others | c.MQGMO_PROPERTIES_COMPATIBILITY):
        return None
    return _optional(given["MsgHandle"])


def _optional(number: int) -> handle_contents.MessageHandle | None:
    return None if number == c.MQHM_NONE else handle_of(number)


def _measured(value: object, property_type: int, length: int) -> object:
    """Return a value as MQSETMP reads it: so many bytes of it."""
    dt = DATA_TYPES.get(property_type)
    if dt == "string" and isinstance(value, (str, bytes)):
        raw = value.encode() if isinstance(value, str) else value
        if not c.MQVL_NULL_TERMINATED <= length <= len(raw):
            raise _wrong_length(length, dt)
        whole = raw.partition(b"\0")[0] if length == c.MQVL_NULL_TERMINATED else raw[:length]
        return whole.decode(errors="replace")
    if dt == "bin.hex" and isinstance(value, bytes):
        if not 0 <= length <= len(value):
            raise _wrong_length(length, dt)
        return value[:length]
    if dt is not None and length != FIXED_BYTES.get(dt, length):
        raise _wrong_length(length, dt)
    return value


def _too_big(error: handle_contents.ValueTooBig, max_bytes: int) -> MQMIError:
    value, raw = error.typed.value, raw_value(error.typed)
    if isinstance(value, str):
        value = raw[:max_bytes].decode(errors="ignore")
    elif isinstance(value, bytes):
        value = raw[:max_bytes]
    return MQMIError(error.comp, error.reason, value=value, dataLength=len(raw))


def _check(structure: MQOpts, struc_id: bytes, reason: int) -> None:
    if structure.StrucId != struc_id or structure.Version != 1:
        detail = f"StrucId {structure.StrucId!r}, Version {structure.Version}"
        raise mq_error(reason, detail)


def _check_options(structure: MQOpts, known: int) -> None:
    if structure.Options & ~known:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"Options {structure.Options:#x}")


def _wrong_length(length: int, dt: str) -> MQError:
    return mq_error(rc.MQRC_BUFFER_LENGTH_ERROR, f"value_length {length} is not that of a {dt}")


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode(errors="replace")
