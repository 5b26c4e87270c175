"""How long a selector takes to find a message among many, and what others notice of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from bench.figures import Figure, at_most, median, seconds_of
from mayfly import QueueManager, jms
from mayfly.engine.get import GetRequest
from mayfly.engine.session import Session
from mayfly.mqi.constants import MQGMO_NONE, MQOO_INPUT_SHARED
from mayfly.mqi.errors import NoMessage

_COUNT, _PER_UNIT, _ROUNDS = 100_000, 2_000, 5
_AMONG_FIRST = 1_000
_COLOURS = ("blue", "green", "red")
_TEXT = "x" * 200
_NOT_THERE = "colour = 'red' AND n = -1"
#: The other client puts this often.
_PACE_SECONDS = 0.001


def figures() -> Iterator[Figure]:
    """Fill a queue with JMS messages and browse it by selectors, whose matches are first or last.

    Medians, messages with a text of 200 characters and two properties.
    """
    with QueueManager("BENCH") as manager:
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)\nDEFINE QLOCAL(Q2) MAXDEPTH(999999999)")
        _fill(manager)
        with manager.session() as session:
            first_ms = _found_ms(session, f"n = {_AMONG_FIRST - 1}")
            yield at_most("selector: the match is the 1,000th of 100k", first_ms, 10, " ms")
            last_ms = _found_ms(session, f"n = {_COUNT - 1}")
            yield at_most(
                "selector: the match is the last of 100k", last_ms, 600, " ms", "a number"
            )
            text_ms = _found_ms(session, f"colour = 'red' AND n = {_COUNT - 1}")
            yield at_most("selector: the same", text_ms, 600, " ms", "a text and a number")
            field_ms = _found_ms(session, "JMSPriority > 8")
            yield at_most("selector: none of 100k", field_ms, 600, " ms", "a field of the MQMD")
            msg_id = _last_id(session)
            by_id_ms = _found_ms(session, f"JMSMessageID = 'ID:{msg_id.hex()}'")
            yield at_most("selector: the last of 100k by its id", by_id_ms, 1, " ms", "index")
            again_ms = _again_ms(session)
            yield at_most("selector: refused again by a handle", again_ms, 1, " ms", "nothing new")
            waits_ms = _waits_of_others_ms(manager, session)
        worst_ms = waits_ms[-1]
        note = f"median {median(waits_ms):.2g} ms, of {len(waits_ms)} puts"
        yield at_most("selector: longest put of another meanwhile", worst_ms, 50, " ms", note)


def _fill(manager: QueueManager) -> None:
    with jms.ConnectionFactory(manager).create_context(jms.SESSION_TRANSACTED) as context:
        queue = context.create_queue("Q1")
        producer = context.create_producer().set_delivery_mode(jms.NON_PERSISTENT)
        for number in range(_COUNT):
            producer.set_property("colour", _COLOURS[number % len(_COLOURS)])
            producer.set_property("n", number).send(queue, _TEXT)
            if number % _PER_UNIT == _PER_UNIT - 1:
                context.commit()


def _found_ms(session: Session, selector: str) -> float:
    """Return how long a browse takes to show the first match, or that there is none."""
    return 1e3 * median(
        seconds_of(lambda: next(session.browse("Q1", selector=selector), None))
        for _ in range(_ROUNDS)
    )


def _last_id(session: Session) -> bytes:
    message = next(session.browse("Q1", selector=f"n = {_COUNT - 1}"))
    return message.msg_id


def _again_ms(session: Session) -> float:
    handle = session.open("Q1", MQOO_INPUT_SHARED, selector=_NOT_THERE)

    def get() -> None:
        try:
            handle.get(GetRequest(), MQGMO_NONE)
        except NoMessage:
            return
        raise AssertionError(_NOT_THERE)

    get()
    return 1e3 * median(seconds_of(get) for _ in range(_ROUNDS))


def _waits_of_others_ms(manager: QueueManager, session: Session) -> list[float]:
    """Return, ascending, how long each put of another client took while selectors searched."""
    waits_ms: list[float] = []
    is_over = threading.Event()

    def put() -> None:
        with manager.session() as other:
            while not is_over.wait(_PACE_SECONDS):
                begin = time.perf_counter()
                other.put("Q2", b"x")
                waits_ms.append(1e3 * (time.perf_counter() - begin))

    thread = threading.Thread(target=put)
    thread.start()
    try:
        for _ in range(_ROUNDS):
            _found_ms(session, _NOT_THERE)
    finally:
        is_over.set()
        thread.join()
    return sorted(waits_ms)
