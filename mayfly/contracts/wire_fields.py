"""Kinds of fields of a frame: each received value is checked for type and range; errors name it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgpack

from mayfly.contracts.wire import MOST_ELEMENTS

#: Checks a value that came and returns it as it is used; raises WrongValue.
Kind: TypeAlias = Callable[[Any], Any]

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
#: Longer than any name, topic string or selector may be: the queue manager refuses those that are
#: too long by their own reason codes.
_TEXT_CHARACTERS: Final = 65_536


class WrongValue(Exception):
    """A value of the wrong type or out of range; the text says why, ``field`` is its name."""

    def __init__(self, said: str, field: str = "") -> None:
        super().__init__(said)
        self.field = field


class WrongFrame(Exception):
    """A frame that makes no sense; the text names the field and its value."""

    def __init__(self, said: str, field: str = "") -> None:
        super().__init__(said)
        self.field = field


def packed(values: object) -> bytes:
    """Return values as they travel; raises ValueError or TypeError for one that cannot travel."""
    try:
        data: bytes = msgpack.packb(values, use_bin_type=True)
    except OverflowError as error:
        raise ValueError(f"no number of 8 bytes: {error}") from error
    return data


class Packer:
    """Packs values as :func:`packed` does, for one thread at a time, into a buffer that it keeps.

    A new buffer took as long as the packing.
    """

    __slots__ = ("_pack",)

    #: A buffer that a long message has made longer than this is dropped: packers live as long as
    #: their connection, and there are many.
    _KEPT_BYTES = 65_536

    def __init__(self) -> None:
        """Begin with a short buffer."""
        self._pack = _new_pack()

    def packed(self, values: object) -> bytes:
        """Return values as they travel; raises ValueError or TypeError for one that cannot."""
        try:
            data: bytes = self._pack(values)
        except OverflowError as error:
            raise ValueError(f"no number of 8 bytes: {error}") from error
        if len(data) > self._KEPT_BYTES:
            self._pack = _new_pack()
        return data


def _new_pack() -> Callable[[object], bytes]:
    pack: Callable[[object], bytes] = msgpack.Packer(use_bin_type=True, buf_size=4_096).pack
    return pack


def unpacked(payload: bytes, most_elements: int = MOST_ELEMENTS) -> list[Any]:
    """Return the array of a frame; raises WrongFrame. Lengths that lie cost no memory."""
    try:
        values = msgpack.unpackb(
            payload,
            raw=False,
            use_list=True,
            max_array_len=most_elements,
            max_map_len=0,
            max_ext_len=0,
        )
    except (ValueError, msgpack.UnpackException, RecursionError) as error:
        said = str(error) or type(error).__name__
        raise WrongFrame(f"the frame is no msgpack array: {said[:200]}") from None
    if type(values) is not list or not values:
        raise WrongFrame("the frame is no msgpack array with something in it")
    return values


def packed_array(items: Sequence[bytes]) -> bytes:
    """Return an array of at most 65,535 values that are packed already."""
    count = len(items)
    head = bytes((0x90 | count,)) if count < 16 else b"\xdc" + count.to_bytes(2, "big")
    return head + b"".join(items)


def whole(value: Any) -> int:
    """A whole number of 8 bytes."""
    if type(value) is not int or not _LOWEST <= value <= _HIGHEST:
        raise WrongValue(f"{_shown(value)} is no whole number of 8 bytes")
    return value


def flag(value: Any) -> bool:
    """True or False."""
    if type(value) is not bool:
        raise WrongValue(f"{_shown(value)} is no flag")
    return value


def text(value: Any) -> str:
    """A text as long as names, topic strings and selectors may be."""
    if type(value) is not str or len(value) > _TEXT_CHARACTERS:
        raise WrongValue(f"{_shown(value)} is no text of at most {_TEXT_CHARACTERS} characters")
    return value


def long_text(value: Any) -> str:
    """A text of any length."""
    if type(value) is not str:
        raise WrongValue(f"{_shown(value)} is no text")
    return value


def raw(value: Any) -> bytes:
    """Bytes of any length."""
    if type(value) is not bytes:
        raise WrongValue(f"{_shown(value)} is not made of bytes")
    return value


def identifier(value: Any) -> bytes:
    """A MsgId, CorrelId, GroupId or token: at most 24 bytes."""
    if type(value) is not bytes or len(value) > 24:
        raise WrongValue(f"{_shown(value)} is not made of at most 24 bytes")
    return value


def scalar(value: Any) -> Any:
    """The value of a property or an attribute."""
    if type(value) not in (int, str, bytes, bool, float, type(None)):
        raise WrongValue(f"{_shown(value)} is no number, text, flag, bytes or nil")
    return value


#: Kinds that leave a value as it is, as conditions of a place ``v``: rows need no call for them.
_CONDITIONS: Final[dict[Kind, str]] = {
    whole: f"type({{v}}) is int and {_LOWEST} <= {{v}} <= {_HIGHEST}",
    flag: "type({v}) is bool",
    text: f"type({{v}}) is str and len({{v}}) <= {_TEXT_CHARACTERS}",
    long_text: "type({v}) is str",
    raw: "type({v}) is bytes",
    identifier: "type({v}) is bytes and len({v}) <= 24",
}

#: Other kinds need a call. For some of them an expression, put before the call, saves it in the
#: usual case: nil of ``maybe``, an empty array of ``many``.
_SHORTCUTS: Final[dict[Kind, str]] = {}


def numbers(value: Any) -> list[int]:
    """Whole numbers of 8 bytes, packed one behind the other: see :func:`packed_numbers`."""
    if type(value) is not bytes or len(value) % 8:
        raise WrongValue(f"{_shown(value)} is not made of numbers of 8 bytes")
    return [
        int.from_bytes(value[at : at + 8], "big", signed=True) for at in range(0, len(value), 8)
    ]


def packed_numbers(values: Iterable[int]) -> bytes:
    """Return numbers as :func:`numbers` reads them; raises ValueError for a larger one."""
    try:
        return b"".join(value.to_bytes(8, "big", signed=True) for value in values)
    except OverflowError as error:
        raise ValueError(f"no number of 8 bytes: {error}") from error


def one_of(*allowed: object) -> Kind:
    """One of some values."""
    said = ", ".join(map(repr, allowed))

    def check(value: Any) -> Any:
        if type(value) is list or value not in allowed:
            raise WrongValue(f"{_shown(value)} is none of {said}")
        return value

    return check


def maybe(kind: Kind) -> Kind:
    """Nil, or a value of a kind."""

    def check(value: Any) -> Any:
        return None if value is None else kind(value)

    condition = _CONDITIONS.get(kind)
    if condition is not None:
        _CONDITIONS[check] = f"{{v}} is None or {condition}"
    else:
        _SHORTCUTS[check] = "None if {v} is None else "
    return check


def many(kind: Kind) -> Kind:
    """An array of values of one kind."""

    def check(value: Any) -> list[Any]:
        if type(value) is not list:
            raise WrongValue(f"{_shown(value)} is no array")
        return [kind(each) for each in value]

    _SHORTCUTS[check] = "{v} if {v} == [] else "
    return check


def at_most(most: int) -> Kind:
    """An array of so many values at the most, which are looked at later."""

    def check(value: Any) -> list[Any]:
        if type(value) is not list or len(value) > most:
            raise WrongValue(f"{_shown(value)} is no array of at most {most}")
        return value

    return check


class Row:
    """An array of a fixed length; each place has a name and a kind."""

    __slots__ = ("_check", "_kinds", "_names", "_said")

    def __init__(self, said: str, **fields: Kind) -> None:
        """Take the name of the whole, and the fields in their order."""
        self._said = said
        self._names = tuple(fields)
        self._kinds = tuple(fields.values())
        #: Made when a row comes: most programs need few of them.
        self._check: Kind | None = None

    def __call__(self, values: Any) -> list[Any]:
        """Return the values checked; raises WrongValue, whose text names the field."""
        found: list[Any] = (self._check or self._made_check())(values)
        return found

    def of(self, values: list[Any]) -> list[Any]:
        """Return the values of a frame; raises WrongFrame."""
        try:
            found: list[Any] = (self._check or self._made_check())(values)
        except WrongValue as wrong:
            raise WrongFrame(str(wrong), wrong.field) from None
        return found

    def field_that_cannot_travel(self, values: list[Any]) -> str:
        """Return the name of the first value that cannot be packed."""
        for name, value in zip(self._names, values, strict=True):
            try:
                packed(value)
            except (ValueError, TypeError):
                return name
        return ""

    def _made_check(self) -> Kind:
        """Return one function for the whole row, as ``namedtuple`` makes its ``__new__``.

        A call for each field took as long as the put that it asked for.
        """
        places = [f"v{number}" for number in range(len(self._kinds))]
        conditions = [f"type(values) is list and len(values) == {len(places)}"]
        known: dict[str, Any] = {"WrongValue": WrongValue, "in_turn": self._checked_in_turn}
        found = []
        for place, kind in zip(places, self._kinds, strict=True):
            condition = _CONDITIONS.get(kind)
            if condition is None:
                known[f"of_{place}"] = kind
                shortcut = _SHORTCUTS.get(kind, "").format(v=place)
                found.append(f"{shortcut}of_{place}({place})")
            else:
                conditions.append(f"({condition.format(v=place)})")
                found.append(place)
        unpacked_places = f"[{', '.join(places)}] = values" if places else "pass"
        source = f"""def check(values):
    if {conditions[0]}:
        {unpacked_places}
        if {" and ".join(conditions[1:]) or True}:
            try:
                return [{", ".join(found)}]
            except WrongValue:
                pass
    return in_turn(values)
"""
        exec(source, known)
        check: Kind = known["check"]
        self._check = check
        return check

    def _checked_in_turn(self, values: Any) -> list[Any]:
        """Find the field that is wrong, and name it."""
        kinds = self._kinds
        if type(values) is not list or len(values) != len(kinds):
            named = ", ".join(self._names)
            raise WrongValue(f"{self._said} is no array of {len(kinds)} values: {named}")
        found: list[Any] = []
        try:
            for kind, value in zip(kinds, values, strict=True):
                found.append(kind(value))
        except WrongValue as wrong:
            name = self._names[len(found)]
            raise WrongValue(f"{self._said}.{name}: {wrong}", name) from None
        return found


def of_kind(kind: Kind, value: object, said: str) -> Any:
    """Return one value of a frame; raises WrongFrame."""
    try:
        return kind(value)
    except WrongValue as wrong:
        raise WrongFrame(f"{said}: {wrong}") from None


def _shown(value: object) -> str:
    if isinstance(value, str | bytes) and len(value) > 60:
        return f"{value[:60]!r}…"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    return repr(value)
