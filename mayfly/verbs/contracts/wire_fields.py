"""Values of a frame: msgpack, with the bounds of what may come; a wrong value is named."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import mq_error
from mayfly.verbs.contracts.wire import MOST_ELEMENTS

_TEXT_CHARACTERS: Final = 65_536
_SHOWN_CHARACTERS: Final = 60
#: A value in a longer frame is not shown: it would be decoded for that.
_SHOWN_FRAME_BYTES: Final = 65_536

#: A whole number of 8 bytes.
Whole: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
#: A whole number that is not negative, and one of at least 1.
Natural: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=2**63 - 1)]
#: Longer than any name, topic string or selector may be: the queue manager refuses those that are
#: too long by their own reason codes.
Text: TypeAlias = Annotated[str, Meta(max_length=_TEXT_CHARACTERS)]
#: A MsgId, CorrelId, GroupId or token.
Identifier: TypeAlias = Annotated[bytes, Meta(max_length=24)]
#: A MsgId or CorrelId of a message that is there.
WholeId: TypeAlias = Annotated[bytes, Meta(min_length=24, max_length=24)]
#: Lists have so many elements at the most, and lists of numbers so many.
AT_MOST: Final = Meta(max_length=MOST_ELEMENTS)
MOST_NUMBERS: Final = 1_048_576
#: A descriptor as :func:`packed_descriptor` makes it: an array of its own. Most messages of a
#: program share one.
PackedDescriptor: TypeAlias = Annotated[bytes, Meta(max_length=4_096)]


class WrongFrame(Exception):
    """A frame that makes no sense; the text names the field and its value.

    ``field`` is the name of the field of a request, empty where the whole is wrong.
    """

    def __init__(self, said: str, field: str = "") -> None:
        super().__init__(said)
        self.field = field


def _plain(value: object) -> object:
    """Return a value of a class of its own, as an enumeration has, as the number or text it is."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"{type(value).__name__} does not travel")


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_plain)


def packed(values: object) -> bytes:
    """Return values as they travel; raises ValueError or TypeError for one that cannot travel."""
    try:
        return _encoder.encode(values)
    except OverflowError as error:
        raise ValueError(f"no number of 8 bytes: {error}") from error


@cache
def decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    """Return the decoder of a type, whose rows are named tuples, or structs that are arrays."""
    return msgspec.msgpack.Decoder(kind)


def decoded(kind: Any, payload: bytes, said: str) -> Any:
    """Return the value of a type in a payload; raises WrongFrame; ``said`` is what it is called."""
    try:
        found = decoder(kind).decode(payload)
    except msgspec.ValidationError as error:
        raise _wrong(kind, payload, str(error), said) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        told = str(error) or type(error).__name__
        raise WrongFrame(f"{said}: the frame is no msgpack array: {told[:200]}") from None
    return found


def first_of(payload: bytes) -> object:
    """Return the first value of an array, the number of a verb; raises WrongFrame."""
    first = decoded(list[msgspec.Raw], payload, "frame")[:1]
    if not first:
        raise WrongFrame("the frame is no msgpack array with something in it")
    return decoded(Any, bytes(first[0]), "verb") if len(first[0]) <= _SHOWN_CHARACTERS else None


#: The 13 numbers, nine texts and two tokens of a descriptor.
_DESCRIPTOR: Final = msgspec.defstruct(
    "descriptor",
    [
        (name, Whole if number < 13 else Text if number < 22 else bytes)
        for number, name in enumerate(Descriptor._fields)
    ],
    array_like=True,
    forbid_unknown_fields=True,
)


@lru_cache(maxsize=1_024)
def packed_descriptor(descriptor: Descriptor) -> PackedDescriptor:
    """Return a descriptor as it travels; raises MQRC_MD_ERROR for one that cannot."""
    try:
        return packed(descriptor)
    except (ValueError, TypeError) as error:
        raise mq_error(rc.MQRC_MD_ERROR, f"the descriptor: {error}") from None


@lru_cache(maxsize=1_024)
def descriptor_of(data: PackedDescriptor) -> Descriptor:
    """Return a descriptor that has travelled; raises WrongFrame, whose field is ``descriptor``."""
    try:
        found = decoded(_DESCRIPTOR, data, "descriptor")
    except WrongFrame as wrong:
        raise WrongFrame(str(wrong), "descriptor") from None
    return Descriptor._make(msgspec.structs.astuple(found))


def verb_of(kind: type[msgspec.Struct]) -> int:
    """Return the number of the verb that a type of request travels under."""
    tag = kind.__struct_config__.tag
    assert isinstance(tag, int)
    return tag


def shown(value: object) -> str:
    """Return a value as an error quotes it."""
    if isinstance(value, str | bytes) and len(value) > _SHOWN_CHARACTERS:
        return f"{value[:_SHOWN_CHARACTERS]!r}…"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    return repr(value)


_PLACE: Final = re.compile(r" - at `\$((?:\[[^]]*\])*)`$")


def _wrong(kind: Any, payload: bytes, error: str, said: str) -> WrongFrame:
    """Return the error of a value that is not of its type, with field and value."""
    found = _PLACE.search(error)
    told = (error[: found.start()] if found else error).replace("`", "")
    told = told[:1].lower() + told[1:]
    places = [int(each) for each in re.findall(r"\[(\d+)\]", found[1])] if found else []
    names, field = _names_of(kind, places)
    value = _value_at(payload, places) if places else ""
    return WrongFrame(f"{said}{''.join(names)}: {value}{told}", field)


def _names_of(kind: Any, places: list[int]) -> tuple[list[str], str]:
    """Return the names of places in a type, ``.properties``, ``[0]``, ``.dt``, and the field.

    That is the innermost one of a struct: a part of a row is no field of a request.
    """
    names, field = [], ""
    for place in places:
        while get_origin(kind) in (Annotated, Union, UnionType):
            kind = get_args(kind)[0]
        if isinstance(kind, type) and issubclass(kind, (msgspec.Struct, tuple)):
            is_struct = issubclass(kind, msgspec.Struct)
            fields = list(get_type_hints(kind, include_extras=True).items())
            if issubclass(kind, msgspec.Struct):
                hints = dict(fields)
                fields = [(name, hints[name]) for name in kind.__struct_fields__]
                if kind.__struct_config__.tag is not None:
                    fields.insert(0, ("verb", int))
            name, kind = fields[place] if place < len(fields) else (str(place), Any)
            names.append(f".{name}")
            field = name if is_struct else field
        else:
            names.append(f"[{place}]")
            inner = get_args(kind)
            kind = inner[min(place, len(inner) - 1)] if inner else Any
    return names, field


def _value_at(payload: bytes, places: list[int]) -> str:
    """Return the value at a place of a frame as an error quotes it, with a colon behind it."""
    if len(payload) > _SHOWN_FRAME_BYTES:
        return ""
    try:
        found: Any = msgspec.msgpack.decode(payload)
        for place in places:
            found = found[place]
    except (msgspec.DecodeError, ValueError, RecursionError, TypeError, IndexError):
        return ""
    return f"{shown(found)}: "
