"""AMQP 1.0 beside RabbitMQ and Artemis: rates, latency, delays, lives, idle connections."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from bench.aims import least_rate
from bench.amqp_client import AmqpClient, encoded
from bench.amqp_peers import AmqpPeer, started_amqp_peers
from bench.child import processor_seconds
from bench.figures import Beside, Figure, at_least, at_most, median
from bench.release import percentile
from mayfly import QueueManager
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS

#: The users of --dev have authority for names that begin with DEV.
_QUEUE, _OURS = "DEV.BENCH", "Mayfly"
_PER_SECOND, _WINDOW_MS = 200, 20_000
_OBJECTS = f"DEFINE QLOCAL({_QUEUE}) MAXDEPTH(999999999)\n"


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    #: Messages of a round of puts, and of gets.
    message_count: int = 5_000
    #: Messages at a pace, for latency, in each of so many rounds.
    paced: int = 400
    paced_rounds: int = 3
    #: Delayed messages, and as many of many lives.
    late_count: int = 100_000
    idle_count: int = 1_000
    has_peers: bool = True
    #: Whether what has no peer is measured as well.
    has_alone: bool = True


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 20, 10, 1, 0, 0, has_peers=False, has_alone=False)
#: Enough to compare makes.
BESIDE: Final = Size(has_alone=False)


def figures(size: Size = USUAL) -> Iterator[Figure | Beside]:
    """Measure everything of this file."""
    with tempfile.TemporaryDirectory() as home:
        with (
            started_amqp_peers(has_peers=size.has_peers) as (peers, missing),
            _served(Path(home)) as ours,
        ):
            measured = _measured([ours, *peers], size)
            yield from _rates(measured, missing)
            yield from _latency([ours, *peers], size)
            if not size.has_alone:
                return
            # Lives and delays are to begin after the last put, on a machine as busy as it is. A
            # message with an annotation of its own takes longer, and the client encodes each.
            rate = median(measured[0].rates["puts"])
            ahead_ms = round(size.late_count / rate * 4_000) + 15_000
            yield from _delays(ours, size.late_count, ahead_ms)
            yield from _lives(ours, size.late_count, ahead_ms)
            yield from _idle(ours, size.idle_count, is_tls=False)
        yield from _ended(Path(home), size.late_count)
    with tempfile.TemporaryDirectory() as home, _served(Path(home), "--tls") as ours:
        yield from _idle(ours, size.idle_count, is_tls=True)


@contextmanager
def _served(home: Path, *options: str) -> Iterator[AmqpPeer]:
    """Serve a queue manager by the command that serves one, scanning for expired messages."""
    script = home / "objects.mqsc"
    script.write_text(_OBJECTS, "utf-8")
    command = [sys.executable, "-m", "mayfly", "serve", "BENCH", "--dev", "--json"]
    command += ["--amqp", "127.0.0.1:0", "--mq", "127.0.0.1:0", "--flight", "127.0.0.1:0"]
    command += ["--mqsc", str(script), "--expiry-interval", "1", *options]
    server = subprocess.Popen(
        command, env={**os.environ, "MAYFLY_HOME": str(home)}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        ready = json.loads(server.stdout.readline())
        port = int(ready["amqp"].rpartition(":")[2])
        yield AmqpPeer(_OURS, port, ready["user"], ready["password"], _QUEUE, server.pid, home)
    finally:
        server.terminate()
        server.wait()


def _client(peer: AmqpPeer, *, is_tls: bool = False) -> AmqpClient:
    return AmqpClient(peer.port, peer.user, peer.password, is_tls=is_tls)


class _Rates:
    """Messages a second of one server and the CPU time of its process, round by round."""

    def __init__(self, peer: AmqpPeer) -> None:
        self._peer, self.name = peer, peer.name
        self.rates: dict[str, list[float]] = {}
        self.cpu_us: dict[str, list[float]] = {}
        self.clear()

    def clear(self) -> None:
        """Forget the rounds so far."""
        self.rates = {"puts": [], "gets": []}
        self.cpu_us = {"puts": [], "gets": []}

    def round(self, count: int) -> None:
        """Put so many messages and get them."""
        message = encoded(os.urandom(200))
        with closing(_client(self._peer)) as client:
            sender = client.sender(self._peer.address)
            self._measure("puts", count, lambda: client.put(sender, [message] * count))
            receiver = client.receiver(self._peer.address)
            self._measure("gets", count, lambda: client.take(receiver, count, lambda _raw: None))

    def _measure(self, verb: str, count: int, run: Callable[[], None]) -> None:
        cpu, begin = processor_seconds(self._peer.pid), time.perf_counter()
        run()
        self.rates[verb].append(count / (time.perf_counter() - begin))
        self.cpu_us[verb].append((processor_seconds(self._peer.pid) - cpu) / count * 1e6)

    def spelled(self, verb: str) -> str:
        """Return rate and CPU time as text."""
        rate, cpu = median(self.rates[verb]), median(self.cpu_us[verb])
        return f"{self._peer.name} {rate:,.0f}/s, {cpu:.0f} us CPU"


def _measured(peers: list[AmqpPeer], size: Size) -> list[_Rates]:
    """Put and get durable messages of 200 bytes with one client, on all servers in turn."""
    measured = [_Rates(peer) for peer in peers]
    for number in range(size.rounds + 1):
        for each in measured:
            each.round(size.message_count)
            if not number:
                # The first round of a Java says nothing.
                each.clear()
    return measured


def _rates(measured: list[_Rates], missing: list[str]) -> Iterator[Figure | Beside]:
    floor, ours = least_rate(1.0), measured[0]
    for verb in ("puts", "gets"):
        yield Beside(
            f"AMQP durable {verb}", "/s", True, {each.name: each.rates[verb] for each in measured}
        )
        note = "; ".join([*(each.spelled(verb) for each in measured), *missing])
        name = f"AMQP durable {verb} beside RabbitMQ"
        rabbitmq = next((each for each in measured if each.name.startswith("RabbitMQ")), None)
        if rabbitmq is None:
            yield Figure(name, "-", f">= {floor}x", True, note)
            continue
        ratios = [a / b for a, b in zip(ours.rates[verb], rabbitmq.rates[verb], strict=True)]
        yield at_least(name, median(ratios), floor, "x", note, samples=ratios)


def _latency(peers: list[AmqpPeer], size: Size) -> Iterator[Figure | Beside]:
    """From the put of one client to another one that waits for it in a process of its own."""
    delays: dict[str, list[list[float]]] = {peer.name: [] for peer in peers}
    for _ in range(size.paced_rounds):
        for peer in peers:
            delays[peer.name].append(_paced(peer, size.paced))
    name = f"AMQP put to get, durable, {_PER_SECOND}/s"
    for percent, ceiling in ((50, 1.5), (99, 6)):
        each = {n: [percentile(found, percent) for found in r] for n, r in delays.items()}
        beside = Beside(f"{name}, p{percent}", " ms", False, each)
        yield beside
        own, note = each[_OURS], beside.figure().note
        yield at_most(beside.name, median(own), ceiling, " ms", note, samples=own)


def _paced(peer: AmqpPeer, count: int) -> list[float]:
    """Return ascending how late, in ms, messages come that are put at the pace."""
    with _taker(peer, count) as taker, closing(_client(peer)) as client:
        sender, begin = client.sender(peer.address), time.perf_counter()
        for n in range(count):
            # Paced: latency is measured at a fixed rate, not at that of the answers.
            time.sleep(max(0.0, begin + n / _PER_SECOND - time.perf_counter()))
            client.put(sender, [encoded(time.time_ns().to_bytes(8, "big").ljust(200))])
        return _delays_of(taker)


def _delays(ours: AmqpPeer, count: int, ahead_ms: int) -> Iterator[Figure]:
    """Delayed messages that another client waits for: how late each of them comes."""
    random, first_ms = Random(1), round(time.time() * 1_000) + ahead_ms
    with _taker(ours, count) as taker, closing(_client(ours)) as client:
        messages = []
        for _ in range(count):
            due_ms = first_ms + random.randrange(_WINDOW_MS)
            body = (due_ms * 1_000_000).to_bytes(8, "big").ljust(200)
            messages.append(encoded(body, annotations={"x-opt-delivery-time": due_ms}))
        client.put(client.sender(ours.address), messages)
        slack_ms = first_ms - time.time() * 1_000
        delays = _delays_of(taker)
    note = f"the first is due {slack_ms:,.0f} ms after the puts"
    for percent, ceiling in ((50, 10), (99, 100)):
        name = f"AMQP {count:,} delayed over {_WINDOW_MS // 1_000} s, arrival - due, p{percent}"
        yield at_most(name, percentile(delays, percent), ceiling, " ms", note)


def _lives(ours: AmqpPeer, count: int, ahead_ms: int) -> Iterator[Figure]:
    """Messages of many lives that nobody gets; :func:`_ended` looks when they went."""
    random, first_ms = Random(2), round(time.time() * 1_000) + ahead_ms
    with closing(_client(ours)) as client:
        sender = client.sender(ours.address)
        for _ in range(count // 1_000):
            now_ms = time.time() * 1_000
            ends_ms = [first_ms + random.randrange(_WINDOW_MS) for _ in range(1_000)]
            # On a machine that is too busy the first ones are late; the note says so.
            lives_ms = [max(end_ms - now_ms, 1) for end_ms in ends_ms]
            client.put(sender, [encoded(bytes(200), ttl=life / 1_000) for life in lives_ms])
    slack_ms = first_ms - time.time() * 1_000
    # The server discards by the real clock, and tells nobody.
    time.sleep(max(0.0, slack_ms + _WINDOW_MS + 3_000) / 1_000)
    yield Figure(
        f"AMQP {count:,} of many lives are put", "-", "", True, f"{slack_ms:,.0f} ms before"
    )


def _ended(home: Path, count: int) -> Iterator[Figure]:
    with QueueManager("BENCH", home / "BENCH") as manager:
        rows, late_ms = manager.engine.ledger.page(0, 10_000_000), []
        for row in rows:
            life = dict(zip(LEDGER_COLUMNS, row, strict=True))
            if life["kind"] == KIND_LIFE and life["outcome"] == "expired":
                late_ms.append(life["ended_ms"] - life["expire_at_ms"])
    name = f"AMQP {len(late_ms):,} expired with no consumer, end - deadline"
    yield at_most(f"{name}, latest", max(late_ms, default=0), 1_000, " ms", "EXPRYINT(1)")
    yield at_least(f"{name}, how many", len(late_ms), count, "")


def _idle(ours: AmqpPeer, count: int, *, is_tls: bool) -> Iterator[Figure]:
    before = _resident_kib(ours.pid)
    clients = [_client(ours, is_tls=is_tls) for _ in range(count)]
    grown = (_resident_kib(ours.pid) - before) / 1_024
    for client in clients:
        client.close()
    kind = "TLS" if is_tls else "plain"
    ceiling = 200 if is_tls else 100
    yield at_most(f"memory of {count:,} idle AMQP connections, {kind}", grown, ceiling, " MB")


def _resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


@contextmanager
def _taker(peer: AmqpPeer, count: int) -> Iterator[subprocess.Popen[str]]:
    """Run a process that takes so many messages, and then tells how late each has come."""
    words = [peer.port, peer.user, peer.password, peer.address, count]
    taker = subprocess.Popen(
        [sys.executable, "-m", "bench.amqp", *map(str, words)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert taker.stdout is not None
        taker.stdout.readline()
        yield taker
    finally:
        taker.kill()
        taker.communicate()


def _delays_of(taker: subprocess.Popen[str]) -> list[float]:
    assert taker.stdout is not None
    return sorted(float(word) for word in taker.stdout.readline().split())


def _take(port: str, user: str, password: str, address: str, count: str) -> None:
    client = AmqpClient(int(port), user, password)
    receiver, delays = client.receiver(address), []

    def note(raw: bytes) -> None:
        # The body is the last section of a message.
        sent_ns = int.from_bytes(raw[-200:-192], "big")
        delays.append((time.time_ns() - sent_ns) / 1e6)

    print("ready", flush=True)
    client.take(receiver, int(count), note)
    print(*(f"{delay:.3f}" for delay in delays), flush=True)
    client.close()


if __name__ == "__main__":
    _take(*sys.argv[1:])
