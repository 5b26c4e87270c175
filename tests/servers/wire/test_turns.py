"""What comes together is answered together: everything, in order, and before the end of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import msgpack

from mayfly import QueueManager
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.servers.wire.link import Outbox
from mayfly.verbs import requests as ask
from mayfly.verbs.contracts.wire import DONE, ENDED, HEADER, verb_of
from tests.connection.serving import Served, serving
from tests.servers.wire.test_hostile import Raw, _put_fields, answer_in


@pytest.fixture
def served(queue_manager: QueueManager) -> Iterator[Served]:
    """``QM1`` served, with ``Q1``."""
    assert queue_manager.mqsc("DEFINE QLOCAL(Q1)").ok
    with serving(queue_manager) as it:
        yield it


def framed(request: int, *values: object) -> bytes:
    payload: bytes = msgpack.encode(values)
    return HEADER.pack(len(payload), 1, request) + payload


def answers(raw: Raw, count: int) -> list[tuple[int, list[Any]]]:
    """Read so many frames: request and values."""
    found = []
    for _ in range(count):
        length, _conversation, request = HEADER.unpack(raw.read(HEADER.size))
        found.append((request, answer_in(raw.read(length))))
    return found


def test_each_of_many_requests_that_come_at_once_is_answered_in_its_turn(served: Served) -> None:
    with Raw(served) as raw:
        raw.connect()
        queue = raw.opened()
        puts = _put_fields(queue, options=c.MQPMO_SYNCPOINT)
        requests = [framed(100 + n, verb_of(ask.Put), *puts) for n in range(50)]
        raw.socket.sendall(b"".join([*requests, framed(150, verb_of(ask.Commit))]))
        told = answers(raw, 51)
        assert [request for request, _values in told] == list(range(100, 151))
        assert {values[0] for _request, values in told} == {DONE}
        assert raw.ask(verb_of(ask.AskCurdepth), "Q1")[1] == 50


def test_what_made_sense_before_nonsense_is_answered_before_the_end(served: Served) -> None:
    with Raw(served) as raw:
        raw.connect()
        nonsense = HEADER.pack(3, 1, 9) + b"\xc1\xc1\xc1"
        raw.socket.sendall(
            framed(7, verb_of(ask.Now)) + framed(8, verb_of(ask.AskCommandLevel)) + nonsense
        )
        (first, now), (second, level), (last, end) = answers(raw, 3)
        assert (first, now[0], second, level[0]) == (7, DONE, 8, DONE)
        assert (last, end[0], end[2]) == (ENDED, ENDED, rc.MQRC_CONNECTION_BROKEN)
        assert raw.is_closed()


def test_a_put_answers_its_own_connection_and_the_get_that_waits_on_another(
    served: Served,
) -> None:
    with Raw(served) as getter, Raw(served) as putter:
        for raw in (getter, putter):
            raw.connect()
        wait = c.MQGMO_WAIT
        asked = [getter.opened(), wait, -1, None, b"", b"", b"", None, None, None, False, False]
        getter.socket.sendall(framed(5, verb_of(ask.Get), *asked))
        # Asked behind it, so that the get waits when this is answered.
        assert getter.ask(verb_of(ask.Now))[0] == DONE
        fields = _put_fields(putter.opened(), body=b"told")
        putter.socket.sendall(framed(6, verb_of(ask.Put), *fields) + framed(7, verb_of(ask.Now)))
        assert [request for request, _values in answers(putter, 2)] == [6, 7]
        ((request, values),) = answers(getter, 1)
        assert (request, values[0], values[1][0][11]) == (5, DONE, b"told")


class Pen:
    """Notes what it writes."""

    def __init__(self, outbox: Outbox, name: str, paper: list[str]) -> None:
        self._outbox, self._name, self._paper = outbox, name, paper
        self._unsent = 0

    def write(self) -> None:
        if not self._unsent:
            self._outbox.note(self)
        self._unsent += 1

    def write_unsent(self) -> None:
        self._paper.append(f"{self._name} {self._unsent}")
        self._unsent = 0


def test_a_turn_writes_once_for_each_connection_at_its_end_or_when_one_has_much() -> None:
    outbox, paper = Outbox(), list[str]()
    one, other = Pen(outbox, "one", paper), Pen(outbox, "other", paper)
    assert not outbox.is_open
    outbox.begin()
    for _ in range(3):
        one.write()
    other.write()
    assert paper == []
    outbox.write()
    assert paper == ["one 3", "other 1"]
    other.write()
    outbox.end()
    assert paper == ["one 3", "other 1", "other 1"]
    outbox.begin()
    outbox.end()
    assert len(paper) == 3
