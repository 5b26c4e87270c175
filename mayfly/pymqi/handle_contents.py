"""A message handle: the properties of a message to be put, or of one that was got."""

from __future__ import annotations

from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, OptionsError, mq_error
from mayfly.mqi.properties import Typed, Value
from mayfly.properties.folders import (
    JMS_READABLE,
    USER_FOLDER,
    Description,
    Property,
    check_length,
    check_mixed,
    named,
    overridden,
    plain_name,
)
from mayfly.properties.selectors import MessageFields
from mayfly.properties.selectors.names import MQMD
from mayfly.properties.values import converted, mq_value, raw_value
from mayfly.verbs.messages import Message

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
    """MQRC_PROPERTY_VALUE_TOO_BIG: the value of a property is longer than its getter takes."""

    def __init__(self, name: str, typed: Typed, max_bytes: int) -> None:
        """Hold the value."""
        detail = f"property {name} has {len(raw_value(typed))} bytes, not {max_bytes} at most"
        super().__init__(rc.MQRC_PROPERTY_VALUE_TOO_BIG, detail)
        self.typed = typed


class MessageHandle:
    """Properties in order, a cursor among them, and the message they came with, if any.

    A get replaces all of it; fields of the MQMD are then readable as ``Root.MQMD.``, and so are the
    headers that JMS has there. Used by one thread at a time.
    """

    def __init__(self, options: int = c.MQCMHO_DEFAULT_VALIDATION) -> None:
        """MQCRTMH; raises MQRC_OPTIONS_ERROR.

        The names of properties are always checked: a wrong name cannot be kept in an MQRFH2.
        """
        if options not in (c.MQCMHO_NONE, c.MQCMHO_NO_VALIDATION, c.MQCMHO_VALIDATE):
            raise _wrong_options("CMHO", options)
        self.properties: list[Property] = []
        self._cursor: int | None = None
        self._original: Message | None = None
        self._returned: Message | None = None

    def fill(self, taken: list[Property], original: Message, returned: Message) -> None:
        """Hold the properties of a message that was got, in place of all there was.

        ``returned`` is the message as its getter sees it, ``original`` as it was put.
        """
        self.hold(taken)
        self._original, self._returned = original, returned

    def hold(self, properties: list[Property]) -> None:
        """Hold these properties in place of all there was."""
        self.properties = list(properties)
        self._cursor = self._original = self._returned = None

    def set(
        self, name: str, mq_type: int, value: object, description: Description, options: int
    ) -> None:
        """MQSETMP: set a property.

        Raises MQRC_OPTIONS_ERROR, MQRC_PD_ERROR, MQRC_PROPERTY_NOT_AVAILABLE without a cursor where
        one is needed, MQRC_MIXED_CONTENT_NOT_ALLOWED, and as ``named`` and ``mq_value``.
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
        """MQINQMP: return the value of a property and move the cursor to it.

        A ``%`` at the end of a name stands for any characters; MQIMPO_INQ_NEXT goes on from the
        cursor.

        Raises MQRC_OPTIONS_ERROR, MQRC_PROPERTY_NAME_LENGTH_ERR, MQRC_PROPERTY_NOT_AVAILABLE and,
        with MQIMPO_CONVERT_TYPE, as ``converted``; ValueTooBig, the cursor staying where it is.
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

    def delete(self, name: str, options: int) -> None:
        """MQDLTMP: remove a property.

        Raises MQRC_OPTIONS_ERROR, MQRC_PROPERTY_NAME_LENGTH_ERR, MQRC_PROPERTY_NAME_ERROR for a
        ``%``, MQRC_PROPERTY_NOT_AVAILABLE.
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
        if options == c.MQSMPO_APPEND_PROPERTY:
            return len(self.properties)
        if options == c.MQSMPO_SET_FIRST:
            places = (n for n, found in enumerate(self.properties) if found.name == name)
            return next(places, len(self.properties))
        place = self._under_cursor()
        return place + 1 if options == c.MQSMPO_SET_PROP_AFTER_CURSOR else place

    def _found(self, name: str, option: int) -> int | None:
        """Return where a property stands, None when there is none of this name."""
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
        """Return what the descriptor of the message that was got says under a name."""
        message = self._returned if name.startswith(MQMD) else self._original
        is_header = name.startswith((MQMD, "JMS")) and not name.startswith("JMS_")
        value: Value = None
        if message is not None and is_header:
            value = MessageFields(message, message.descriptor, message.seen_ms).value(name)
        if value is None:
            raise _missing(name)
        return Typed("i8" if name == "JMSTimestamp" else _TYPES[type(value)], value)

    def _under_cursor(self) -> int:
        if self._cursor is None or self._cursor >= len(self.properties):
            raise mq_error(rc.MQRC_PROPERTY_NOT_AVAILABLE, "no property is under the cursor")
        return self._cursor


def properties_to_put(
    original: MessageHandle | None, new: MessageHandle | None, action: int
) -> list[Property]:
    """Return the properties of a message that is put with these handles; those of ``new`` win.

    Forwarded, replied to or reported on, a message passes on the properties whose copy options say
    so. Raises MQRC_ACTION_ERROR, and MQRC_HMSG_ERROR for an action that needs an original.
    """
    if action not in (c.MQACTP_NEW, *_COPIED):
        raise mq_error(rc.MQRC_ACTION_ERROR, f"PMO.Action {action}")
    if original is None and action != c.MQACTP_NEW:
        raise mq_error(rc.MQRC_HMSG_ERROR, f"PMO.Action {action} needs an OriginalMsgHandle")
    properties = [] if original is None else original.properties
    if action in _COPIED:
        properties = copied(properties, _COPIED[action])
    return properties if new is None else overridden(properties, new.properties)


def copied(properties: list[Property], copy_option: int) -> list[Property]:
    """Return the properties that go into another message for this MQCOPY_* option."""
    wanted = copy_option | c.MQCOPY_ALL
    return [found for found in properties if found.description.copy_options & wanted]


def _matches(name: str, wanted: str) -> bool:
    if not wanted.endswith("%"):
        return name == wanted
    start = wanted[:-1]
    if start.startswith(f"{USER_FOLDER}."):
        return "." not in name and f"{USER_FOLDER}.{name}".startswith(start)
    return name.startswith(start)


def _check_description(description: Description) -> None:
    support, context, copy_options = description
    if support not in _SUPPORT:
        raise mq_error(rc.MQRC_PD_ERROR, f"PD.Support {support:#x}")
    if context not in (c.MQPD_NO_CONTEXT, c.MQPD_USER_CONTEXT):
        raise mq_error(rc.MQRC_PD_ERROR, f"PD.Context {context}")
    if copy_options & ~_COPY_BITS:
        raise mq_error(rc.MQRC_PD_ERROR, f"PD.CopyOptions {copy_options:#x}")


def _wrong_options(structure: str, options: int) -> MQError:
    return mq_error(rc.MQRC_OPTIONS_ERROR, f"{structure}.Options {options:#x}")


def _missing(name: str) -> MQError:
    return mq_error(rc.MQRC_PROPERTY_NOT_AVAILABLE, f"no property {name!r}")
