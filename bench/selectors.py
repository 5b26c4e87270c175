"""How long a selector takes to find a message among many, and what others notice of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from bench.figures import Figure, at_most, median, seconds_of
from mayfly import QueueManager, jms
from mayfly.engine.get import GetRequest
from mayfly.engine.session import Session
from mayfly.mqi.constants import MQGMO_NONE, MQOO_INPUT_SHARED
from mayfly.mqi.errors import NoMessage

_PER_UNIT = 2_000
_COLOURS = ("blue", "green", "red")
_TEXT = "x" * 200
_NOT_THERE = "colour = 'red' AND n = -1"
#: The other client puts this often.
_PACE_SECONDS = 0.001


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    message_count: int = 100_000
    #: The match that is early.
    early: int = 1_000


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 30, 3)


def figures(size: Size = USUAL) -> Iterator[Figure]:
    """Fill a queue with JMS messages and browse it by selectors, whose matches are first or last.

    Messages have a text of 200 characters and two properties.
    """
    count, last = f"{size.message_count:,}", size.message_count - 1
    with QueueManager("BENCH") as manager:
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)\nDEFINE QLOCAL(Q2) MAXDEPTH(999999999)")
        _fill(manager, size.message_count)
        with manager.session() as session:
            by_id = f"JMSMessageID = 'ID:{_id_of(session, last).hex()}'"
            for name, selector, ceiling_ms, note in (
                (f"match {size.early:,} of {count}", f"n = {size.early - 1}", 10, "a number"),
                (f"the last of {count}, a property", f"n = {last}", 600, "a number"),
                (
                    f"the last of {count}, two properties",
                    f"colour = 'red' AND n = {last}",
                    600,
                    "a text and a number",
                ),
                (
                    f"none of {count}, a field of the MQMD",
                    "JMSPriority > 8",
                    600,
                    "a field of the MQMD",
                ),
                (f"the last of {count}, its id", by_id, 1, "index"),
            ):
                found_ms = _found_ms(session, selector, size.rounds)
                title = f"selector: {name}"
                yield at_most(title, median(found_ms), ceiling_ms, " ms", note, samples=found_ms)
            again_ms, name = _again_ms(session, size.rounds), "selector: refused again by a handle"
            yield at_most(name, median(again_ms), 1, " ms", "nothing new", samples=again_ms)
            waits_ms = _waits_of_others_ms(manager, session, size.rounds)
        note = f"median {median(waits_ms):.2g} ms, of {len(waits_ms)} puts"
        yield at_most("selector: longest put of another meanwhile", waits_ms[-1], 50, " ms", note)


def _fill(manager: QueueManager, count: int) -> None:
    with jms.ConnectionFactory(manager).create_context(jms.SESSION_TRANSACTED) as context:
        queue = context.create_queue("Q1")
        producer = context.create_producer().set_delivery_mode(jms.NON_PERSISTENT)
        for number in range(count):
            producer.set_property("colour", _COLOURS[number % len(_COLOURS)])
            producer.set_property("n", number).send(queue, _TEXT)
            if number % _PER_UNIT == _PER_UNIT - 1:
                context.commit()
        context.commit()


def _found_ms(session: Session, selector: str, rounds: int) -> list[float]:
    """Return how long a browse takes to show the first match, or that there is none."""
    return [
        1e3 * seconds_of(lambda: next(session.browse("Q1", selector=selector), None))
        for _ in range(rounds)
    ]


def _id_of(session: Session, number: int) -> bytes:
    message = next(session.browse("Q1", selector=f"n = {number}"))
    return message.msg_id


def _again_ms(session: Session, rounds: int) -> list[float]:
    handle = session.open("Q1", MQOO_INPUT_SHARED, selector=_NOT_THERE)

    def get() -> None:
        try:
            handle.get(GetRequest(), MQGMO_NONE)
        except NoMessage:
            return
        raise AssertionError(_NOT_THERE)

    get()
    return [1e3 * seconds_of(get) for _ in range(rounds)]


def _waits_of_others_ms(manager: QueueManager, session: Session, rounds: int) -> list[float]:
    """Return, ascending, how long each put of another client took while selectors searched."""
    waits_ms: list[float] = []
    is_over = threading.Event()

    def put() -> None:
        with manager.session() as other:
            while not waits_ms or not is_over.wait(_PACE_SECONDS):
                begin = time.perf_counter()
                other.put("Q2", b"x")
                waits_ms.append(1e3 * (time.perf_counter() - begin))

    thread = threading.Thread(target=put)
    thread.start()
    try:
        _found_ms(session, _NOT_THERE, rounds)
    finally:
        is_over.set()
        thread.join()
    return sorted(waits_ms)
