"""MQCHARV, the strings of any length in MQOD and MQSD: as a program sets them and verbs read them.

In a structure such a string is five fields; the first, VSPtr, is a pointer. Here it is a number
that has its string with it, so that a copy of the structure has it as well and nothing is read from
an address.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from mayfly.mqi.errors import mq_error

#: The fields of a structure by name; which are numbers and which bytes, its class knows.
Fields: TypeAlias = dict[str, Any]
#: VSLength of a string that ends with its first NUL, MQVS_NULL_TERMINATED.
NULL_TERMINATED: Final = -1


class StringPointer(int):
    """A VSPtr: the number a C program would see, and the bytes it leads to."""

    target: bytes

    def __new__(cls, target: bytes) -> StringPointer:
        """Point to these bytes."""
        pointer = super().__new__(cls, id(target))
        pointer.target = target
        return pointer


def string_in(fields: Fields, name: str, reason: int) -> str:
    """Return the string of that name in a structure's fields, empty when there is none.

    Raises the reason given for a pointer that set_vs has not made, a length beyond its end, an
    offset beside it, or bytes that are not UTF-8.
    """
    pointer, length = fields[f"{name}VSPtr"], fields[f"{name}VSLength"]
    if not pointer and length <= 0 and not fields[f"{name}VSOffset"]:
        return ""
    if not isinstance(pointer, StringPointer):
        raise mq_error(reason, f"{name}.VSPtr {pointer} with VSLength {length} leads nowhere")
    if fields[f"{name}VSOffset"]:
        raise mq_error(reason, f"{name}.VSOffset {fields[f'{name}VSOffset']} beside a VSPtr")
    target = pointer.target
    if length == NULL_TERMINATED:
        target = target.partition(b"\0")[0]
    elif not 0 <= length <= len(target):
        raise mq_error(reason, f"{name}.VSLength {length} is not within 0 .. {len(target)}")
    else:
        target = target[:length]
    try:
        return target.decode()
    except UnicodeDecodeError as error:
        raise mq_error(reason, f"{name} {target!r} is not UTF-8: {error.reason}") from None


def return_string(fields: Fields, name: str, text: str) -> None:
    """Give a string back in the buffer that a program has set aside for it; without one, nothing.

    VSLength is its whole length; of one that does not fit the last VSBufSize bytes are returned.
    """
    room_bytes = fields[f"{name}VSBufSize"]
    if room_bytes > 0:
        raw = text.encode()
        fields[f"{name}VSPtr"] = StringPointer(raw[-room_bytes:])
        fields[f"{name}VSLength"] = len(raw)
