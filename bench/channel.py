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

from bench.figures import Figure, at_least, median, seconds_of
from bench.raw import get_loop, put_loop
from mayfly import QueueManager
from mayfly.channel import Status
from mayfly.store.database import Database

BODY = os.urandom(200)
_ROUNDS = 5
_COUNT, _BATCH_SIZE, _PUTS_A_UNIT = 10_000, 50, 500
_LAST = b"last"
_CHANNEL = "QM1.TO.QM2"
_RECEIVER = f"DEFINE QLOCAL(IN) MAXDEPTH(999999999)\nDEFINE CHANNEL({_CHANNEL}) CHLTYPE(RCVR)"
_NETWORK_ROUNDS, _TOKEN, _POLL_SECONDS = 3, "bench", 0.002
_SPAWN = get_context("spawn")


def figures() -> Iterator[Figure]:
    """Measure everything of this file."""
    rates, ratios = [], []
    for _ in range(_ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            raw_seconds = _raw(Path(folder))
        with tempfile.TemporaryDirectory() as folder:
            own_seconds = _channel(Path(folder))
        rates.append(_COUNT / own_seconds)
        ratios.append(raw_seconds / own_seconds)
    yield at_least("channel, persistent, BATCHSZ(50)", median(rates), 12_000, "/s")
    note = "the bare loops with as many commits a batch, three"
    yield at_least("the same beside bare loops", median(ratios), 0.35, "x", note)
    yield from _network(median(rates))


def _network(local_rate: float) -> Iterator[Figure]:
    rates = []
    for _ in range(_NETWORK_ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            rates.append(_COUNT / _between_processes(Path(folder)))
    note = f"{median(rates):,.0f}/s from one process to another over a socket"
    yield at_least(
        "channel over the network, against one process", median(rates) / local_rate, 0.5, "x", note
    )


def _between_processes(folder: Path) -> float:
    port: Queue[int] = _SPAWN.Queue()
    other = _SPAWN.Process(target=_serve, args=(folder / "QM2", port), daemon=True)
    other.start()
    try:
        way = f"TRPTYPE(TCP) CONNAME('127.0.0.1({port.get()})')"
        with QueueManager("QM1", folder / "QM1") as one:
            _fill(one, way)
            return seconds_of(lambda: _send_all(one))
    finally:
        other.kill()
        other.join()


def _serve(folder: Path, port: Queue[int]) -> None:
    """Serve the receiving queue manager until this process is killed."""
    from mayfly.security.admission import Admission
    from mayfly.servers.wire import WireServer

    with QueueManager("QM2", folder) as two:
        two.mqsc(_RECEIVER)
        server = WireServer([two], Admission([two.engine], token=_TOKEN))
        port.put(server.listen_tcp("127.0.0.1", 0))
        threading.Event().wait()


def _send_all(one: QueueManager) -> None:
    os.environ["MAYFLY_TOKEN"] = _TOKEN
    one.channels.start(_CHANNEL)
    while one.channels.status(_CHANNEL)[0].sequence < _COUNT:
        threading.Event().wait(_POLL_SECONDS)


def _raw(folder: Path) -> float:
    """Take each batch off one file, put it into another, with as many commits as a channel."""
    source, target = Database(folder / "source"), Database(folder / "target")
    put_loop(source, _COUNT, _PUTS_A_UNIT, BODY)

    def move() -> None:
        # A channel's own part, the note that a batch is in doubt, is a commit of one row.
        for number in range(_COUNT // _BATCH_SIZE):
            source.writer.execute("INSERT OR REPLACE INTO meta VALUES ('doubt', ?)", (number,))
        put_loop(target, _COUNT, _BATCH_SIZE, BODY)
        get_loop(source, _COUNT, _BATCH_SIZE)

    seconds = seconds_of(move)
    source.close()
    target.close()
    return seconds


def _channel(folder: Path) -> float:
    with ExitStack() as stack:
        one = stack.enter_context(QueueManager("QM1", folder / "QM1"))
        two = stack.enter_context(QueueManager("QM2", folder / "QM2"))
        two.mqsc(_RECEIVER)
        _fill(one, "CONNAME(QM2)")
        return seconds_of(lambda: _move(one, two))


def _fill(one: QueueManager, way: str) -> None:
    """Define the sender and put all messages on its transmission queue."""
    one.mqsc(
        "DEFINE QLOCAL(QM2) USAGE(XMITQ) MAXDEPTH(999999999)\n"
        f"DEFINE CHANNEL({_CHANNEL}) CHLTYPE(SDR) {way} XMITQ(QM2) BATCHSZ({_BATCH_SIZE})"
    )
    with one.session(transacted=True) as session:
        for number in range(_COUNT):
            is_last = number == _COUNT - 1
            session.put("IN@QM2", BODY, persistent=True, correl_id=_LAST if is_last else None)
            if number % _PUTS_A_UNIT == _PUTS_A_UNIT - 1:
                session.commit()


def _move(one: QueueManager, two: QueueManager) -> None:
    with two.session() as reader:
        one.channels.start(_CHANNEL)
        # Nothing polls beside the channel: this wakes when the message is committed there.
        assert reader.get("IN", correl_id=_LAST, wait_ms=60_000) is not None
    [standing] = one.channels.status(_CHANNEL)
    assert standing.status is Status.RUNNING
