"""A channel: persistent messages from one queue manager to another, beside the bare loops."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Final, NamedTuple

from bench.figures import Figure, at_least, median, seconds_of
from bench.raw import get_loop, put_loop
from mayfly import QueueManager
from mayfly.channel import ChannelState
from mayfly.store.database import Database

BODY = os.urandom(200)
_BATCH_SIZE, _PUTS_A_UNIT = 50, 500
_LAST = b"last"
_CHANNEL = "QM1.TO.QM2"
_RECEIVER = f"DEFINE QLOCAL(IN) MAXDEPTH(999999999)\nDEFINE CHANNEL({_CHANNEL}) CHLTYPE(RCVR)"
_TOKEN, _POLL_SECONDS = "bench", 0.002
_SPAWN = get_context("spawn")


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    network_rounds: int = 3
    message_count: int = 10_000


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 1, 50)


def figures(size: Size = USUAL) -> Iterator[Figure]:
    """Measure everything of this file."""
    count, rates, ratios = size.message_count, list[float](), list[float]()
    for _ in range(size.rounds):
        with tempfile.TemporaryDirectory() as folder:
            raw_seconds = _raw(Path(folder), count)
        with tempfile.TemporaryDirectory() as folder:
            own_seconds = _channel(Path(folder), count)
        rates.append(count / own_seconds)
        ratios.append(raw_seconds / own_seconds)
    name = "channel, persistent, BATCHSZ(50)"
    yield at_least(name, median(rates), 12_000, "/s", samples=rates)
    note = "the bare loops with as many commits a batch, three"
    name = f"{name}, beside bare loops"
    yield at_least(name, median(ratios), 0.35, "x", note, samples=ratios)
    yield from _network(size, median(rates))


def _network(size: Size, local_rate: float) -> Iterator[Figure]:
    rates = []
    for _ in range(size.network_rounds):
        with tempfile.TemporaryDirectory() as folder:
            seconds = _between_processes(Path(folder), size.message_count)
        rates.append(size.message_count / seconds)
    ratios = [rate / local_rate for rate in rates]
    note = f"{median(rates):,.0f}/s from one process to another over a socket"
    name = "channel over the network, against one process"
    yield at_least(name, median(ratios), 0.5, "x", note, samples=ratios)


def _between_processes(folder: Path, count: int) -> float:
    port: Queue[int] = _SPAWN.Queue()
    other = _SPAWN.Process(target=_serve, args=(folder / "QM2", port), daemon=True)
    other.start()
    try:
        way = f"TRPTYPE(TCP) CONNAME('127.0.0.1({port.get()})')"
        with QueueManager("QM1", folder / "QM1") as one:
            _fill(one, count, way)
            return seconds_of(lambda: _send_all(one, count))
    finally:
        other.kill()
        other.join()


def _serve(folder: Path, port: Queue[int]) -> None:
    """Serve the receiving queue manager until this process is killed."""
    from mayfly.admin.security.admission import Admission
    from mayfly.servers.wire import WireServer

    with QueueManager("QM2", folder) as two:
        two.mqsc(_RECEIVER)
        server = WireServer([two], Admission([two.engine], token=_TOKEN))
        port.put(server.listen_tcp("127.0.0.1", 0))
        threading.Event().wait()


def _send_all(one: QueueManager, count: int) -> None:
    os.environ["MAYFLY_TOKEN"] = _TOKEN
    one.channels.start(_CHANNEL)
    while one.channels.status(_CHANNEL)[0].sequence < count:
        threading.Event().wait(_POLL_SECONDS)


def _raw(folder: Path, count: int) -> float:
    """Take each batch off one file, put it into another, with as many commits as a channel."""
    source, target = Database(folder / "source"), Database(folder / "target")
    put_loop(source, count, _PUTS_A_UNIT, BODY)

    def move() -> None:
        # A channel's own part, the note that a batch is in doubt, is a commit of one row.
        for number in range(count // _BATCH_SIZE):
            source.writer.execute("INSERT OR REPLACE INTO meta VALUES ('doubt', ?)", (number,))
        put_loop(target, count, _BATCH_SIZE, BODY)
        get_loop(source, count, _BATCH_SIZE)

    seconds = seconds_of(move)
    source.close()
    target.close()
    return seconds


def _channel(folder: Path, count: int) -> float:
    with ExitStack() as stack:
        one = stack.enter_context(QueueManager("QM1", folder / "QM1"))
        two = stack.enter_context(QueueManager("QM2", folder / "QM2"))
        two.mqsc(_RECEIVER)
        _fill(one, count, "CONNAME(QM2)")
        return seconds_of(lambda: _move(one, two))


def _fill(one: QueueManager, count: int, way: str) -> None:
    """Define the sender and put all messages on its transmission queue."""
    one.mqsc(
        "DEFINE QLOCAL(QM2) USAGE(XMITQ) MAXDEPTH(999999999)\n"
        f"DEFINE CHANNEL({_CHANNEL}) CHLTYPE(SDR) {way} XMITQ(QM2) BATCHSZ({_BATCH_SIZE})"
    )
    with one.session(transacted=True) as session:
        for number in range(count):
            is_last = number == count - 1
            session.put("IN@QM2", BODY, persistent=True, correl_id=_LAST if is_last else None)
            if number % _PUTS_A_UNIT == _PUTS_A_UNIT - 1:
                session.commit()
        session.commit()


def _move(one: QueueManager, two: QueueManager) -> None:
    with two.session() as reader:
        one.channels.start(_CHANNEL)
        # Nothing polls beside the channel: this wakes when the message is committed there.
        assert reader.get("IN", correl_id=_LAST, wait_ms=60_000) is not None
    [standing] = one.channels.status(_CHANNEL)
    assert standing.status is ChannelState.RUNNING
