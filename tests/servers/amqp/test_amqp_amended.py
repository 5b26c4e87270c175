"""Annotations of *modified* that a server keeps: combined by name, and bounded."""

from __future__ import annotations

import pytest
from proton import symbol

from mayfly.servers.amqp import codec, service
from mayfly.servers.amqp.service import AddedAnnotations

ONE, TWO = b"1" * 24, b"2" * 24


def texts(kept: AddedAnnotations, msg_id: bytes, manager: str = "QM1") -> dict[object, object]:
    return {codec.plain(k): codec.plain(v) for k, v in kept.of(manager, msg_id).items()}


def test_a_later_value_takes_the_place_of_an_earlier_one() -> None:
    kept = AddedAnnotations()
    kept.add("QM1", ONE, {symbol("a"): "1", symbol("b"): "1"})
    kept.add("QM1", ONE, {symbol("b"): "2"})
    assert texts(kept, ONE) == {"a": "1", "b": "2"}
    assert texts(kept, TWO) == texts(kept, ONE, "QM2") == {}


def test_what_is_too_much_is_forgotten() -> None:
    kept = AddedAnnotations()
    kept.add("QM1", ONE, {symbol("a"): "x" * 4_096})
    assert texts(kept, ONE) == {}
    for number in range(65):
        kept.add("QM1", ONE, {symbol(f"a{number}"): number})
    assert list(texts(kept, ONE)) == [f"a{number}" for number in range(64)]


def test_messages_that_were_amended_longest_ago_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_MESSAGES", 2)
    kept = AddedAnnotations()
    for msg_id in (ONE, TWO, ONE, b"3" * 24):
        kept.add("QM1", msg_id, {symbol("a"): "1"})
    assert (texts(kept, ONE), texts(kept, TWO)) == ({"a": "1"}, {})
