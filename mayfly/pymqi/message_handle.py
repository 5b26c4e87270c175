"""Message handle of pymqi: the properties of a message to put, or of one that was got.

A message handle is a number for PMO and GMO, with properties in order and a cursor.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Protocol
from weakref import WeakValueDictionary

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, OptionsError, mq_error
from mayfly.mqi.properties import Typed, Value
from mayfly.pymqi.errors import MQMIError, mqmi_error, raises_mqmi
from mayfly.pymqi.structures import CMHO, DMHO, DMPO, PD, SMPO, Fields, check_structure
from mayfly.verbs.messages import Message
from mayfly.verbs.properties.folders import (
    DATA_TYPES,
    FIXED_BYTES,
    JMS_READABLE,
    USER_FOLDER,
    Description,
    Property,
    check_length,
    check_mixed,
    converted,
    mq_value,
    named,
    overridden,
    plain_name,
    raw_value,
)
from mayfly.verbs.properties.selectors.fields import SelectorFields
from mayfly.verbs.properties.selectors.names import MQMD

_SET_OPTIONS = (
    c.MQSMPO_SET_FIRST,
    c.MQSMPO_SET_PROP_UNDER_CURSOR,
    c.MQSMPO_SET_PROP_AFTER_CURSOR,
    c.MQSMPO_APPEND_PROPERTY,
    c.MQSMPO_SET_PROP_BEFORE_CURSOR,
)
_CONVERT = c.MQIMPO_CONVERT_TYPE | c.MQIMPO_CONVERT_VALUE
_INQUIRE_OPTIONS = (
    c.MQIMPO_INQ_FIRST,
    c.MQIMPO_INQ_NEXT,
    c.MQIMPO_INQ_PROP_UNDER_CURSOR,
)
_DELETE_OPTIONS = (c.MQDMPO_DEL_FIRST, c.MQDMPO_DEL_PROP_UNDER_CURSOR)
_COPY_BITS = c.MQCOPY_ALL | c.MQCOPY_FORWARD | c.MQCOPY_PUBLISH | c.MQCOPY_REPLY | c.MQCOPY_REPORT
_SUPPORT = (
    c.MQPD_SUPPORT_OPTIONAL,
    c.MQPD_SUPPORT_REQUIRED,
    c.MQPD_SUPPORT_REQUIRED_IF_LOCAL,
)
#: Action of a put -> the copy option of the properties that come along from the original.
_COPIED = {
    c.MQACTP_FORWARD: c.MQCOPY_FORWARD,
    c.MQACTP_REPLY: c.MQCOPY_REPLY,
    c.MQACTP_REPORT: c.MQCOPY_REPORT,
}
_TYPES: dict[type, str] = {int: "i4", str: "string", bytes: "bin.hex"}


class ValueTooBig(OptionsError):
    """MQRC_PROPERTY_VALUE_TOO_BIG: a property value is longer than the getter allows."""

    def __init__(self, name: str, typed: Typed, max_bytes: int) -> None:
        """Build the text; ``typed`` is the complete value, ``max_bytes`` the length allowed."""
        detail = f"property {name} has {len(raw_value(typed))} bytes, not {max_bytes} at most"
        super().__init__(rc.MQRC_PROPERTY_VALUE_TOO_BIG, detail)
        self.typed = typed


class HandleContents:
    """The contents of a message handle: properties in order, a cursor, and their message if any.

    A get replaces all of it. Fields of the MQMD are then readable as ``Root.MQMD.``, as are the
    headers that JMS has there. One thread at a time uses it.
    """

    def __init__(self, options: int = c.MQCMHO_DEFAULT_VALIDATION) -> None:
        """Create empty contents (MQCRTMH); raises MQRC_OPTIONS_ERROR for wrong MQCMHO options.

        Property names are always validated: an MQRFH2 cannot hold a wrong name.
        """
        if options not in (c.MQCMHO_NONE, c.MQCMHO_NO_VALIDATION, c.MQCMHO_VALIDATE):
            raise _wrong_options("CMHO", options)
        self.properties: list[Property] = []
        self._cursor: int | None = None
        self._original: Message | None = None
        self._returned: Message | None = None

    def fill(self, taken: list[Property], original: Message, returned: Message) -> None:
        """Replace the contents by the properties of a message that was got; clears the cursor.

        ``taken`` are the properties. ``original`` is the message as it was put, ``returned`` as its
        getter sees it.
        """
        self.hold(taken)
        self._original, self._returned = original, returned

    def hold(self, properties: list[Property]) -> None:
        """Replace the contents by properties without a message; clears the cursor.

        Fields of the MQMD and JMS headers cannot be inquired then.
        """
        self.properties = list(properties)
        self._cursor = self._original = self._returned = None

    def set(
        self, name: str, mq_type: int, value: object, description: Description, options: int
    ) -> None:
        """Set a property (MQSETMP); ``mq_type`` is its MQTYPE_* constant.

        The MQSMPO ``options`` choose which property is replaced, or where the new one is inserted.
        Raises MQRC_OPTIONS_ERROR, MQRC_PD_ERROR for a wrong ``description``,
        MQRC_PROPERTY_NOT_AVAILABLE if a needed cursor is missing, and
        MQRC_MIXED_CONTENT_NOT_ALLOWED for ``a.b`` beside ``a.b.c``. For a wrong name it raises
        MQRC_PROPERTY_NAME_ERROR or MQRC_PROPERTY_NAME_LENGTH_ERR, for a wrong type or value
        MQRC_PROPERTY_TYPE_ERROR or MQRC_PROP_NUMBER_FORMAT_ERROR.
        """
        if options not in _SET_OPTIONS:
            raise _wrong_options("SMPO", options)
        _check_description(description)
        new = named(name, mq_value(name, mq_type, value))._replace(description=description)
        place = self._place_for(new.name, options)
        replaces = options in (c.MQSMPO_SET_FIRST, c.MQSMPO_SET_PROP_UNDER_CURSOR)
        end = place + 1 if replaces else place
        check_mixed(new.name, (p.name for p in self.properties[:place] + self.properties[end:]))
        self.properties[place:end] = [new]
        if options == c.MQSMPO_SET_PROP_BEFORE_CURSOR and self._cursor is not None:
            self._cursor += 1

    def inquire(self, name: str, mq_type: int, options: int, max_bytes: int) -> Typed:
        """Return the value of a property (MQINQMP) and move the cursor to it.

        A ``%`` at the end of a name matches any characters; MQIMPO_INQ_NEXT continues after the
        cursor. Raises MQRC_OPTIONS_ERROR, MQRC_PROPERTY_NAME_LENGTH_ERR, and
        MQRC_PROPERTY_NOT_AVAILABLE for a missing property. With MQIMPO_CONVERT_TYPE it raises
        MQRC_PROPERTY_TYPE_ERROR, MQRC_PROP_CONV_NOT_SUPPORTED or MQRC_PROP_NUMBER_FORMAT_ERROR if
        the value cannot be converted to ``mq_type``. Raises ValueTooBig for more than
        ``max_bytes``; the cursor then stays.
        """
        option = options & ~_CONVERT
        if option not in _INQUIRE_OPTIONS:
            raise _wrong_options("IMPO", options)
        check_length(name)
        place = self._found(name, option)
        typed = self._header(name) if place is None else self.properties[place].typed
        if options & c.MQIMPO_CONVERT_TYPE:
            typed = converted(name, typed, mq_type)
        if len(raw_value(typed)) > max_bytes:
            raise ValueTooBig(name, typed, max_bytes)
        if place is not None:
            self._cursor = place
        return typed

    @property
    def at_cursor(self) -> Property | None:
        """The property under the cursor; None without a cursor."""
        return None if self._cursor is None else self.properties[self._cursor]

    def delete(self, name: str, options: int) -> None:
        """Delete a property (MQDLTMP), the first of its name or the one under the cursor.

        Raises MQRC_OPTIONS_ERROR, MQRC_PROPERTY_NAME_LENGTH_ERR, MQRC_PROPERTY_NAME_ERROR for a
        ``%``, and MQRC_PROPERTY_NOT_AVAILABLE for a missing property or cursor.
        """
        if options not in _DELETE_OPTIONS:
            raise _wrong_options("DMPO", options)
        check_length(name)
        if name.endswith("%"):
            raise mq_error(rc.MQRC_PROPERTY_NAME_ERROR, f"property {name!r} is not one name")
        option = c.MQIMPO_INQ_FIRST
        if options == c.MQDMPO_DEL_PROP_UNDER_CURSOR:
            option = c.MQIMPO_INQ_PROP_UNDER_CURSOR
        place = self._found(name, option)
        if place is None:
            raise _missing(name)
        del self.properties[place]
        if self._cursor is not None and self._cursor >= place:
            # The next one asked for is the one behind the deleted.
            self._cursor = self._cursor - 1 if self._cursor else None

    def _place_for(self, name: str, options: int) -> int:
        """Return the index at which MQSETMP sets a property with these MQSMPO options.

        Raises MQRC_PROPERTY_NOT_AVAILABLE if the options need a cursor and it is missing.
        """
        if options == c.MQSMPO_APPEND_PROPERTY:
            return len(self.properties)
        if options == c.MQSMPO_SET_FIRST:
            places = (n for n, found in enumerate(self.properties) if found.name == name)
            return next(places, len(self.properties))
        place = self._under_cursor()
        return place + 1 if options == c.MQSMPO_SET_PROP_AFTER_CURSOR else place

    def _found(self, name: str, option: int) -> int | None:
        """Return the index of the property that a name and an MQIMPO option select.

        Returns None for a missing one. Raises MQRC_PROPERTY_NOT_AVAILABLE if the option needs a
        cursor and it is missing.
        """
        if option == c.MQIMPO_INQ_PROP_UNDER_CURSOR:
            return self._under_cursor()
        start = 0
        if option == c.MQIMPO_INQ_NEXT and self._cursor is not None:
            start = self._cursor + 1
        wanted = name if name.endswith("%") else plain_name(JMS_READABLE.get(name, name))
        for place in range(start, len(self.properties)):
            if _matches(self.properties[place].name, wanted):
                return place
        return None

    def _header(self, name: str) -> Typed:
        """Return the descriptor field (``Root.MQMD.Expiry``) or JMS header that a name selects.

        Raises MQRC_PROPERTY_NOT_AVAILABLE for an unknown name, or without a message.
        """
        message = self._returned if name.startswith(MQMD) else self._original
        is_header = name.startswith((MQMD, "JMS")) and not name.startswith("JMS_")
        value: Value = None
        if message is not None and is_header:
            value = SelectorFields(message, message.descriptor, message.seen_ms).value(name)
        if value is None:
            raise _missing(name)
        return Typed("i8" if name == "JMSTimestamp" else _TYPES[type(value)], value)

    def _under_cursor(self) -> int:
        """Return the index of the property under the cursor.

        Raises MQRC_PROPERTY_NOT_AVAILABLE without a cursor.
        """
        if self._cursor is None or self._cursor >= len(self.properties):
            raise mq_error(rc.MQRC_PROPERTY_NOT_AVAILABLE, "no property is under the cursor")
        return self._cursor


def copied(properties: list[Property], copy_option: int) -> list[Property]:
    """Return those properties that are to be copied: with this MQCOPY_* option, or MQCOPY_ALL."""
    wanted = copy_option | c.MQCOPY_ALL
    return [found for found in properties if found.description.copy_options & wanted]


def _matches(name: str, wanted: str) -> bool:
    """Return True if a property name matches ``wanted``, which may end with the wildcard ``%``.

    ``usr.%`` matches the properties of the usr folder, whose names have no folder.
    """
    if not wanted.endswith("%"):
        return name == wanted
    start = wanted[:-1]
    if start.startswith(f"{USER_FOLDER}."):
        return "." not in name and f"{USER_FOLDER}.{name}".startswith(start)
    return name.startswith(start)


def _check_description(description: Description) -> None:
    """Raise MQRC_PD_ERROR for a wrong Support, Context or CopyOptions of an MQPD."""
    support, context, copy_options = description
    if support not in _SUPPORT:
        raise mq_error(rc.MQRC_PD_ERROR, f"PD.Support {support:#x}")
    if context not in (c.MQPD_NO_CONTEXT, c.MQPD_USER_CONTEXT):
        raise mq_error(rc.MQRC_PD_ERROR, f"PD.Context {context}")
    if copy_options & ~_COPY_BITS:
        raise mq_error(rc.MQRC_PD_ERROR, f"PD.CopyOptions {copy_options:#x}")


def _wrong_options(structure: str, options: int) -> MQError:
    """Return (not raise) MQRC_OPTIONS_ERROR for the options of a structure, such as SMPO."""
    return mq_error(rc.MQRC_OPTIONS_ERROR, f"{structure}.Options {options:#x}")


def _missing(name: str) -> MQError:
    """Return (not raise) MQRC_PROPERTY_NOT_AVAILABLE for a property name."""
    return mq_error(rc.MQRC_PROPERTY_NOT_AVAILABLE, f"no property {name!r}")


class PymqiConnection(Protocol):
    """A pymqi connection, reduced to the method that a message handle uses."""

    def connection(self) -> Connection:
        """Return the Mayfly connection behind this object.

        Raises PYIFError when not connected, and MQMIError with MQRC_CONNECTION_BROKEN when the
        queue manager is gone.
        """


_numbers = count(1)
#: The message handles that are in use; one ends with the last who knows its number.
_known: WeakValueDictionary[int, HandleContents] = WeakValueDictionary()


class HandleNumber(int):
    """The number of a message handle, which keeps its contents alive while a PMO or GMO has it."""

    target: HandleContents


class MessageHandle:
    """A message handle; ``msg_handle`` is its number for PMO.OriginalMsgHandle and GMO.MsgHandle.

    PMO version 3 and GMO version 4 have these fields.
    """

    #: How many bytes of a value are asked for where a program does not say.
    default_value_length = 64

    @raises_mqmi
    def __init__(self, qmgr: PymqiConnection | None = None, cmho: CMHO | None = None) -> None:
        """Create a message handle (MQCRTMH); ``qmgr`` None is a handle without a connection.

        Raises MQMIError with MQRC_CMHO_ERROR or MQRC_OPTIONS_ERROR for a wrong ``cmho``, PYIFError
        if ``qmgr`` is not connected.
        """
        self.conn_handle = None if qmgr is None else qmgr.connection()
        cmho = CMHO() if cmho is None else cmho
        check_structure(vars(cmho), c.MQCMHO_STRUC_ID, (1,), rc.MQRC_CMHO_ERROR)
        target = HandleContents(cmho.Options)
        self.msg_handle = HandleNumber(next(_numbers))
        self.msg_handle.target = target
        _known[int(self.msg_handle)] = target
        self.properties = _Properties(self.conn_handle, self.msg_handle)

    def get_handle(self) -> int:
        """Return the number of the message handle (MQHMSG), as in ibmmq."""
        return self.msg_handle

    @raises_mqmi
    def dlt(self, dmho: DMHO | None = None) -> None:
        """Delete the message handle (MQDLTMH); its number becomes invalid.

        Raises MQMIError with MQRC_DMHO_ERROR or MQRC_OPTIONS_ERROR for a wrong ``dmho``, and with
        MQRC_HMSG_ERROR in a second call.
        """
        dmho = DMHO() if dmho is None else dmho
        check_structure(vars(dmho), c.MQDMHO_STRUC_ID, (1,), rc.MQRC_DMHO_ERROR)
        if dmho.Options != c.MQDMHO_NONE:
            raise mq_error(rc.MQRC_OPTIONS_ERROR, f"Options {dmho.Options:#x}")
        handle_of(self.msg_handle)
        del _known[int(self.msg_handle)]


class _Properties:
    """The properties of a message handle, by name (str, or UTF-8 bytes)."""

    def __init__(self, conn_handle: Connection | None, msg_handle: HandleNumber) -> None:
        """Take the connection and the number of the handle; no verb is called."""
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
        """Return the value of a property (MQINQMP); ``default``, unless None, for a missing one.

        ``max_value_length`` is in bytes, by default 64. ``impo_options`` are MQIMPO options.
        ``property_type`` is the type of the result with MQIMPO_CONVERT_TYPE, else without effect.
        Another ``pd`` than MQPD_NONE raises MQRC_PD_ERROR. Raises MQMIError, with
        MQRC_PROPERTY_NOT_AVAILABLE for a missing property without a default. With
        MQRC_PROPERTY_VALUE_TOO_BIG, its ``value`` is the part that fits, and ``dataLength`` the
        full length.
        """
        max_bytes = max_value_length or MessageHandle.default_value_length
        try:
            if pd != c.MQPD_NONE:
                raise mq_error(rc.MQRC_PD_ERROR, f"PD.Options {pd:#x}")
            found = self._target().inquire(_text(name), property_type, impo_options, max_bytes)
        except ValueTooBig as error:
            raise _too_big(error, max_bytes) from error
        except MQError as error:
            if error.reason == rc.MQRC_PROPERTY_NOT_AVAILABLE and default is not None:
                return default
            raise mqmi_error(error) from error
        return found.value

    @raises_mqmi
    def set(
        self,
        name: str | bytes,
        value: Any,
        property_type: int = c.MQTYPE_STRING,
        value_length: int = c.MQVL_NULL_TERMINATED,
        pd: PD | None = None,
        smpo: SMPO | None = None,
    ) -> None:
        """Set a property (MQSETMP); ``value_length`` is in bytes, by default the complete text.

        ``pd`` is the descriptor of the property, ``smpo`` the options; None is their initial
        values. Raises MQMIError with MQRC_BUFFER_LENGTH_ERROR for a length that does not fit the
        type, MQRC_SMPO_ERROR, MQRC_PD_ERROR, and the reason codes of ``HandleContents.set``.
        """
        pd = PD() if pd is None else pd
        smpo = SMPO() if smpo is None else smpo
        check_structure(vars(smpo), c.MQSMPO_STRUC_ID, (1,), rc.MQRC_SMPO_ERROR)
        check_structure(vars(pd), c.MQPD_STRUC_ID, (1,), rc.MQRC_PD_ERROR)
        if pd.Options != c.MQPD_NONE:
            raise mq_error(rc.MQRC_PD_ERROR, f"PD.Options {pd.Options:#x}")
        given = _measured(value, property_type, value_length)
        description = Description(pd.Support, pd.Context, pd.CopyOptions)
        target = self._target()
        target.set(_text(name), property_type, given, description, smpo.Options)

    @raises_mqmi
    def dlt(self, name: str | bytes, dmpo: DMPO | None = None) -> None:
        """Delete a property (MQDLTMP); ``dmpo`` are the options, None for their initial values.

        Raises MQMIError with MQRC_DMPO_ERROR, MQRC_OPTIONS_ERROR, and MQRC_PROPERTY_NOT_AVAILABLE
        for a missing one.
        """
        dmpo = DMPO() if dmpo is None else dmpo
        check_structure(vars(dmpo), c.MQDMPO_STRUC_ID, (1,), rc.MQRC_DMPO_ERROR)
        self._target().delete(_text(name), dmpo.Options)

    def _target(self) -> HandleContents:
        """Return the contents of the message handle.

        Raises MQRC_HCONN_ERROR if its connection is closed, MQRC_HMSG_ERROR if the handle was
        deleted.
        """
        if self.conn_handle is not None and not self.conn_handle.is_open:
            raise mq_error(rc.MQRC_HCONN_ERROR, "the connection of the message handle is closed")
        return handle_of(self.msg_handle)


def handle_of(number: int) -> HandleContents:
    """Return the contents of the message handle with this number.

    Raises MQRC_HMSG_ERROR for an unknown or deleted handle.
    """
    found = _known.get(int(number))
    if found is None:
        raise mq_error(rc.MQRC_HMSG_ERROR, f"message handle {int(number)}")
    return found


def properties_of_put(given: Fields, *, publishes: bool) -> list[Property]:
    """Return the properties for a put, from the message handles in the PMO fields.

    They are [] for a PMO below version 3. Those of NewMsgHandle take precedence over those of
    OriginalMsgHandle. A forwarded message, reply or report (Action MQACTP_*) copies only the
    properties of the original with the matching copy option. A publication (``publishes``) has only
    properties with MQCOPY_PUBLISH. Raises MQRC_ACTION_ERROR for another action, and MQRC_HMSG_ERROR
    for an unknown handle, or an action that needs an OriginalMsgHandle without one.
    """
    if given["Version"] < c.MQPMO_VERSION_3:
        return []
    original, new = _optional(given["OriginalMsgHandle"]), _optional(given["NewMsgHandle"])
    action = given["Action"]
    if action not in (c.MQACTP_NEW, *_COPIED):
        raise mq_error(rc.MQRC_ACTION_ERROR, f"PMO.Action {action}")
    if original is None and action != c.MQACTP_NEW:
        raise mq_error(rc.MQRC_HMSG_ERROR, f"PMO.Action {action} needs an OriginalMsgHandle")
    properties = [] if original is None else original.properties
    if action in _COPIED:
        properties = copied(properties, _COPIED[action])
    if new is not None:
        properties = overridden(properties, new.properties)
    return copied(properties, c.MQCOPY_PUBLISH) if publishes else properties


def note_put(given: Fields, properties: list[Property]) -> None:
    """Store the properties of a put in the NewMsgHandle of the PMO fields.

    Does nothing without that handle, or for a PMO below version 3.
    """
    if given["Version"] >= c.MQPMO_VERSION_3:
        new = _optional(given["NewMsgHandle"])
        if new is not None:
            new.hold(properties)


def handle_of_get(given: Fields) -> HandleContents | None:
    """Return the contents of the MsgHandle in the GMO fields, to be filled by a get.

    Returns None without a handle, and for other MQGMO_PROPERTIES_* options. Raises MQRC_HMSG_ERROR
    for an unknown handle, or for MQGMO_PROPERTIES_IN_HANDLE without a handle.
    """
    options = given["Options"]
    has_field = given["Version"] >= c.MQGMO_VERSION_4
    if options & c.MQGMO_PROPERTIES_IN_HANDLE:
        return handle_of(given["MsgHandle"] if has_field else c.MQHM_NONE)
    others = c.MQGMO_NO_PROPERTIES | c.MQGMO_PROPERTIES_FORCE_MQRFH2
    if not has_field or options & (others | c.MQGMO_PROPERTIES_COMPATIBILITY):
        return None
    return _optional(given["MsgHandle"])


def _optional(number: int) -> HandleContents | None:
    """Return the contents of a message handle, None for MQHM_NONE.

    Raises MQRC_HMSG_ERROR for an unknown handle.
    """
    return None if number == c.MQHM_NONE else handle_of(number)


def _measured(value: object, property_type: int, length: int) -> object:
    """Return the part of a value that MQSETMP reads: ``length`` bytes of text or bytes.

    ``property_type`` is the MQTYPE_* of the property. With MQVL_NULL_TERMINATED a text ends before
    its first NUL, any other value is read as a whole. Raises MQRC_BUFFER_LENGTH_ERROR for a length
    that does not fit the value or its type.
    """
    dt = DATA_TYPES.get(property_type)
    if dt == "string" and isinstance(value, (str, bytes)):
        raw = value.encode() if isinstance(value, str) else value
        if not c.MQVL_NULL_TERMINATED <= length <= len(raw):
            raise _wrong_length(length, dt)
        value = raw.partition(b"\0")[0] if length == c.MQVL_NULL_TERMINATED else raw[:length]
        return value.decode(errors="replace")
    if length == c.MQVL_NULL_TERMINATED:
        return value
    if dt == "bin.hex" and isinstance(value, bytes):
        if not 0 <= length <= len(value):
            raise _wrong_length(length, dt)
        return value[:length]
    if dt is not None and length != FIXED_BYTES.get(dt, length):
        raise _wrong_length(length, dt)
    return value


def _too_big(error: ValueTooBig, max_bytes: int) -> MQMIError:
    """Return (not raise) the MQMIError for a too long value, with the part that fits."""
    value, raw = error.typed.value, raw_value(error.typed)
    if isinstance(value, str):
        value = raw[:max_bytes].decode(errors="ignore")
    elif isinstance(value, bytes):
        value = raw[:max_bytes]
    return MQMIError(error.comp, error.reason, value=value, dataLength=len(raw))


def _wrong_length(length: int, dt: str) -> MQError:
    """Return (not raise) MQRC_BUFFER_LENGTH_ERROR for a ``value_length`` that is wrong for a type.

    ``dt`` is the name of the type in an MQRFH2, such as ``string``.
    """
    return mq_error(rc.MQRC_BUFFER_LENGTH_ERROR, f"value_length {length} is not that of a {dt}")


def _text(name: str | bytes) -> str:
    """Return a property name as str; bytes are decoded as UTF-8, invalid ones replaced."""
    return name if isinstance(name, str) else name.decode(errors="replace")
