"""Values of frames: each type takes what it is, to its bounds, and names what it is not."""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts import wire as f
from mayfly.verbs.contracts.wire import WrongFrame, decoded, decoder, packed
from mayfly.verbs.messages import Settlement
from mayfly.verbs.rows import PropertyRow, packed_scalar, scalar_of
from mayfly.verbs.schedule import ScheduleFilter

TAKEN: list[tuple[Any, Any]] = [
    (f.Int64, -(2**63)),
    (f.Int64, 2**63 - 1),
    (f.NonNegative, 0),
    (f.Positive, 1),
    (f.Text, "x" * 65_536),
    (f.Identifier, b"x" * 24),
    (f.Identifier, b""),
    (f.FullId, b"x" * 24),
    (f.Int64 | None, None),
    (bool, False),
]
REFUSED: list[tuple[Any, Any]] = [
    (f.Int64, 2**63),
    (f.Int64, 1.0),
    (f.Int64, True),
    (f.Int64, None),
    (f.Int64, "1"),
    (f.NonNegative, -1),
    (f.Positive, 0),
    (f.Text, "x" * 65_537),
    (f.Text, b"x"),
    (f.Identifier, b"x" * 25),
    (f.Identifier, "x"),
    (f.FullId, b"x" * 23),
    (bool, 1),
    (bytes, "x"),
]


@pytest.mark.parametrize(("kind", "value"), TAKEN)
def test_a_type_takes_its_bounds(kind: Any, value: Any) -> None:
    assert decoded(kind, packed(value), "it") == value


@pytest.mark.parametrize(("kind", "value"), REFUSED)
def test_a_type_refuses_what_is_beyond_its_bounds(kind: Any, value: Any) -> None:
    with pytest.raises(WrongFrame, match=r"^it: expected "):
        decoded(kind, packed(value), "it")


@pytest.mark.parametrize(
    ("values", "said", "field"),
    [
        ([5, b"d", 0, "q", 0, [b""]], "put.handle: 'q': expected int, got str", "handle"),
        (
            [5, b"d", 0, 1, 0, [b"", b"", b"", -1, 5.0]],
            "put.message.time_to_live_ms: 5.0",
            "time_to_live_ms",
        ),
        (
            [5, b"d", 0, 1, 0, [b"", b"", b"", -1, None, 0, [["a", 7, 1, 1, 1, 1]]]],
            "put.message.properties[0].dt: 7: expected str, got int",
            "properties",
        ),
        ([5, b"", 0], "put: expected array of at least length 6, got 3", ""),
        (
            [30, [None, None, [["a"]], None, None], 1, None],
            "list_schedule.where.properties",
            "where",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_place(values: list[Any], said: str, field: str) -> None:
    kind = ask.VERBS[values[0]]
    with pytest.raises(WrongFrame) as refused:
        ask.request_of_kind(kind, packed(values))
    assert str(refused.value).startswith(said)
    assert refused.value.field == field


def test_a_long_value_is_cut_in_its_error() -> None:
    with pytest.raises(WrongFrame) as refused:
        decoded(f.Identifier, packed(b"x" * 5_000), "id")
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xc1", b"\xdd\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff", b"\x93\x05", b"\x91" * 5_000],
    ids=["nothing", "no code", "a long array", "a long text", "half", "depth"],
)
def test_a_frame_that_lies_about_its_length_costs_nothing(payload: bytes) -> None:
    with pytest.raises(WrongFrame):
        ask.request_of(payload)


@pytest.mark.parametrize("verb", [1, 999, -1, "put", None, 2**63])
def test_a_verb_that_there_is_not_is_2298(verb: Any) -> None:
    """CONNECT is none on a conversation that is open."""
    with pytest.raises(ask.WrongRequest) as refused:
        ask.request_of(packed([verb]))
    assert refused.value.reason == rc.MQRC_FUNCTION_NOT_SUPPORTED


@pytest.mark.parametrize("kind", ask.VERBS.values(), ids=ask.verb_name)
def test_each_request_comes_over_as_it_was_made(kind: type[ask.Request[Any]]) -> None:
    hints = get_type_hints(kind, include_extras=True)
    fields = [_sample(hints[field]) for field in kind.__struct_fields__]
    request = kind(*fields)
    travelled = ask.request_of_kind(kind, packed(request))
    assert (type(travelled), packed(travelled)) == (kind, packed(request))
    assert decoder(ask.answer_type(kind)) is not None
    # What is behind the last field is refused: nobody looks at it.
    with pytest.raises(WrongFrame):
        ask.request_of_kind(kind, packed([kind.__struct_config__.tag, *fields, 1]))


def test_every_handle_of_a_request_is_one_that_reconnecting_knows() -> None:
    """A field that numbers what is open has a type that says so."""
    numbering = {"handle", "handles", "context", "queue", "held", "altered", "number"}
    not_open: dict[type[ask.Request[Any]], set[str]] = {ask.GoOn: {"number"}}
    for kind in ask.VERBS.values():
        hints = get_type_hints(kind)
        fields = {each for each in kind.__struct_fields__ if hints[each] is not str}
        named = {each for each in fields & numbering if hints[each] in (int, list[int])}
        assert ask.numbers_in(kind).keys() == named - not_open.get(kind, set()), kind


def _sample(hint: Any) -> Any:
    """Return a value of a type."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if hint is ask.NewMessage:
        return ask.NewMessage(b"body", properties=[])
    if hint is ScheduleFilter:
        return ScheduleFilter("Q", None, (("a", "b"),), None, 7)
    if hint is Settlement:
        return Settlement.TAKEN
    known = {int: 7, str: "text", bytes: b"b" * 8, bool: True}
    if hint in known:
        return known[hint]
    if get_origin(hint) is list:
        [inner] = get_args(hint)
        return [] if inner is PropertyRow else [_sample(inner)]
    if get_origin(hint) is tuple:
        return tuple(_sample(inner) for inner in get_args(hint))
    if hint is msgspec.Raw:
        return msgspec.Raw(packed(1))
    return _sample(get_args(hint)[0])


def test_a_descriptor_travels_packed() -> None:
    descriptor = Descriptor(priority=3, format="MQSTR", group_id=b"g" * 24)
    data = f.packed_descriptor(descriptor)
    assert f.descriptor_of(data) == descriptor
    for wrong, said in (
        (packed(["x", *descriptor[1:]]), "descriptor.report: 'x': expected int, got str"),
        (packed([2**63, *descriptor[1:]]), "descriptor.report: 9223372036854775808"),
        (packed(list(descriptor)[:5]), "descriptor: expected array of at least length 24"),
        (b"", "descriptor: the frame is no msgpack array"),
    ):
        with pytest.raises(WrongFrame) as refused:
            f.descriptor_of(wrong)
        assert str(refused.value).startswith(said)
        assert refused.value.field == "descriptor"
    with pytest.raises(MQError) as cannot:
        f.packed_descriptor(descriptor._replace(report=2**64))
    assert cannot.value.reason == rc.MQRC_MD_ERROR


@pytest.mark.parametrize("value", [None, True, 0, -(2**63), 2**63 - 1, 1.5, "x", b"x", "x" * 300])
def test_a_scalar_travels(value: Any) -> None:
    travelled = scalar_of(packed_scalar(value, "set.values", rc.MQRC_UNEXPECTED_ERROR), "values")
    assert (travelled, type(travelled)) == (value, type(value))


@pytest.mark.parametrize("value", [[], [1], {}, {"a": 1}, [0] * 300, 2**63, 2**64 - 1])
def test_what_is_no_scalar_is_refused_by_its_field(value: Any) -> None:
    with pytest.raises(WrongFrame) as refused:
        scalar_of(msgspec.Raw(packed(value)), "values")
    assert refused.value.field == "values"


def test_what_cannot_travel_is_refused_by_a_reason_code() -> None:
    with pytest.raises(MQError) as refused:
        packed_scalar(object(), "set.values", rc.MQRC_UNEXPECTED_ERROR)
    assert refused.value.reason == rc.MQRC_UNEXPECTED_ERROR
    with pytest.raises(ValueError, match="8 bytes"):
        packed([2**64])
    with pytest.raises(TypeError):
        packed([object()])


def test_a_frame_that_comes_whole_while_frames_are_paused_is_kept_until_they_go_on() -> None:
    taken: list[tuple[int, int, bytes]] = []
    frames = f.Frames(lambda *_: True, lambda *frame: taken.append(frame), 100)
    frames.take(f.OURS.packed())
    frames.is_paused = True
    for number in (1, 2):
        frames.take(f.HEADER.pack(1, 7, number) + b"x")
    assert taken == []
    frames.is_paused = False
    frames.go_on()
    assert taken == [(7, 1, b"x"), (7, 2, b"x")]


def test_no_frame_is_passed_on_after_the_end() -> None:
    taken: list[tuple[int, int, bytes]] = []
    frames = f.Frames(lambda *_: True, lambda *frame: taken.append(frame), 100)
    frames.take(f.OURS.packed())
    frames.end()
    frames.take(f.HEADER.pack(1, 7, 1) + b"x")
    assert taken == []
