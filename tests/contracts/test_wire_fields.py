"""Rows of the wire: each place takes what its kind takes, and nothing else, whatever is beside."""

from typing import Any

import pytest

from mayfly.contracts import wire_fields as f
from mayfly.contracts.wire_fields import Kind, Row, WrongFrame, WrongValue
from mayfly.contracts.wire_rows import MESSAGE, WINDOW, descriptor, packed_descriptor
from mayfly.contracts.wire_verbs import FORMS, Verb
from mayfly.mqi.descriptor import Descriptor

INNER = Row("inner", number=f.whole, name=f.text)
KINDS: dict[str, Kind] = {
    "whole": f.whole,
    "flag": f.flag,
    "text": f.text,
    "long_text": f.long_text,
    "raw": f.raw,
    "identifier": f.identifier,
    "scalar": f.scalar,
    "numbers": f.numbers,
    "one_of": f.one_of("a", 1),
    "descriptor": descriptor,
    "inner": INNER,
    "many whole": f.many(f.whole),
    "many inner": f.many(INNER),
    **{
        f"maybe {name}": f.maybe(kind)
        for name, kind in (
            ("whole", f.whole),
            ("text", f.text),
            ("identifier", f.identifier),
            ("inner", INNER),
            ("many", f.many(f.whole)),
        )
    },
    "maybe maybe": f.maybe(f.maybe(f.whole)),
}
#: What msgpack may bring, at the bounds of every kind.
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    2**63 - 1,
    2**63,
    2**64 - 1,
    -(2**63),
    1.0,
    float("nan"),
    "",
    "a",
    "x" * 65_536,
    "x" * 65_537,
    b"",
    b"x" * 8,
    b"x" * 24,
    b"x" * 25,
    b"x" * 5_000,
    packed_descriptor(Descriptor()),
    [],
    [1],
    ["1"],
    [2**63],
    [1, "n"],
    [1, b"n"],
    [1, "n", None],
    [[1, "n"]],
    [[1, "n"], []],
)


def outcome_of(kind: Kind, value: Any) -> Any:
    """Return what becomes of a value: how it is used, or what is wrong."""
    try:
        return "taken", repr(kind(value))
    except WrongValue as wrong:
        return "wrong", str(wrong)


def outcome_within(row: Row, value: Any) -> Any:
    """Return the same of a value between two others, in a row."""
    try:
        before, here, behind = row([7, value, None])
    except WrongValue as wrong:
        return "wrong", str(wrong).removeprefix("row.here: ")
    return ("taken", repr(here)) if (before, behind) == (7, None) else (before, behind)


@pytest.mark.parametrize("name", KINDS)
def test_a_place_of_a_row_takes_what_its_kind_takes_alone(name: str) -> None:
    kind = KINDS[name]
    row = Row("row", before=f.whole, here=kind, behind=f.maybe(f.text))
    for value in VALUES:
        assert outcome_within(row, value) == outcome_of(kind, value)


def test_the_first_wrong_place_is_named_and_a_row_goes_on_after_it() -> None:
    row = Row("row", a=f.whole, b=INNER, c=f.raw)
    cases: list[tuple[Any, str]] = [
        (["1", [1, "n"], b""], "row.a: '1' is no whole number"),
        ([1, [1, 2], 3], "row.b: inner.name: 2 is no text"),
        ([1, [1, "n"], 3], "row.c: 3 is not made of bytes"),
        ([1, [1, "n"]], "row is no array of 3 values: a, b, c"),
        ((1, [1, "n"], b""), "row is no array of 3 values: a, b, c"),
        (None, "row is no array of 3 values: a, b, c"),
    ]
    for wrong, said in cases:
        with pytest.raises(WrongValue) as refused:
            row(wrong)
        assert str(refused.value).startswith(said)
        with pytest.raises(WrongFrame, match=r"^row"):
            row.of(wrong)
    assert row([1, [1, "n"], b"x"]) == row.of([1, [1, "n"], b"x"]) == [1, [1, "n"], b"x"]


def test_what_came_is_left_as_it_is() -> None:
    packed = packed_descriptor(Descriptor())
    came = ["Q1", 1, 2, 3, None, None, 0, b"m", b"c", packed, None, b"body"]
    before = list(came)
    assert MESSAGE(came)[9] == Descriptor()
    assert came == before
    with pytest.raises(WrongValue, match=r"message\.body"):
        MESSAGE([*came[:-1], "body"])
    assert came == before


def test_rows_of_no_and_of_one_place() -> None:
    assert FORMS[Verb.COMMIT].request.of([]) == []
    with pytest.raises(WrongFrame, match="commit is no array of 0 values"):
        FORMS[Verb.COMMIT].request.of([1])
    assert FORMS[Verb.CANCEL].request.of([5]) == [5]
    with pytest.raises(WrongFrame, match=r"cancel\.request: '5' is no whole number"):
        FORMS[Verb.CANCEL].request.of(["5"])
    assert WINDOW([1, 2, None]) == [1, 2, None]
