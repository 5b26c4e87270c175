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

from bench.aims import least_rate
from bench.amqp_client import AmqpClient, encoded
from bench.amqp_peers import AmqpPeer, started_amqp_peers
from bench.figures import Figure, at_least, at_most, median
from bench.release import percentile
from mayfly import QueueManager
from mayfly.lifetime.life import KIND_LIFE, LEDGER_COLUMNS

#: The users of --dev have authority for names that begin with DEV.
_QUEUE, _OURS = "DEV.BENCH", "Mayfly"
_ROUNDS, _COUNT = 5, 5_000
_PACED, _PER_SECOND = 1_000, 200
_LATE, _WINDOW_MS, _IDLE = 100_000, 20_000, 1_000
_OBJECTS = f"DEFINE QLOCAL({_QUEUE}) MAXDEPTH(999999999)\n"


def figures() -> Iterator[Figure]:
    """Measure everything of this file."""
    with started_amqp_peers() as (peers, missing), tempfile.TemporaryDirectory() as home:
        with _served(Path(home)) as ours:
            measured = _measured([ours, *peers])
            yield from _rates(measured, missing)
            yield from _latency(ours)
            # Lives and delays are to begin after the last put, on a machine as busy as it is. A
            # message with an annotation of its own takes longer, and the client encodes each.
            ahead_ms = round(_LATE / median(measured[0].rates["puts"]) * 4_000) + 15_000
            yield from _delays(ours, ahead_ms)
            yield from _lives(ours, ahead_ms)
            yield from _idle(ours, is_tls=False)
        yield from _ended(Path(home))
    with tempfile.TemporaryDirectory() as home, _served(Path(home), "--tls") as ours:
        yield from _idle(ours, is_tls=True)


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

    def round(self) -> None:
        """Put so many messages and get them."""
        message = encoded(os.urandom(200))
        with closing(_client(self._peer)) as client:
            sender = client.sender(self._peer.address)
            self._measure("puts", lambda: client.put(sender, [message] * _COUNT))
            receiver = client.receiver(self._peer.address)
            self._measure("gets", lambda: client.take(receiver, _COUNT, lambda _raw: None))

    def _measure(self, verb: str, run: Callable[[], None]) -> None:
        cpu, begin = _cpu_seconds(self._peer.pid), time.perf_counter()
        run()
        self.rates[verb].append(_COUNT / (time.perf_counter() - begin))
        self.cpu_us[verb].append((_cpu_seconds(self._peer.pid) - cpu) / _COUNT * 1e6)

    def spelled(self, verb: str) -> str:
        """Return rate and CPU time as text."""
        rate, cpu = median(self.rates[verb]), median(self.cpu_us[verb])
        return f"{self._peer.name} {rate:,.0f}/s, {cpu:.0f} us CPU"


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _measured(peers: list[AmqpPeer]) -> list[_Rates]:
    """Put and get durable messages of 200 bytes with one client, on all servers in turn."""
    measured = [_Rates(peer) for peer in peers]
    for number in range(_ROUNDS + 1):
        for each in measured:
            each.round()
            if not number:
                # The first round of a Java says nothing.
                each.clear()
    return measured


def _rates(measured: list[_Rates], missing: list[str]) -> Iterator[Figure]:
    floor = least_rate(1.0)
    for verb in ("puts", "gets"):
        note = "; ".join([*(each.spelled(verb) for each in measured), *missing])
        name = f"AMQP durable {verb} beside RabbitMQ"
        if len(measured) < 2 or not measured[1].name.startswith("RabbitMQ"):
            yield Figure(name, "-", f">= {floor}x", True, note)
            continue
        pairs = zip(measured[0].rates[verb], measured[1].rates[verb], strict=True)
        ratios = [a / b for a, b in pairs]
        yield at_least(name, median(ratios), floor, "x", note, samples=ratios)


def _latency(ours: AmqpPeer) -> Iterator[Figure]:
    """From the put of one client to another one that waits for it in a process of its own."""
    with _taker(ours, _PACED) as taker, closing(_client(ours)) as client:
        sender, begin = client.sender(ours.address), time.perf_counter()
        for n in range(_PACED):
            time.sleep(max(0.0, begin + n / _PER_SECOND - time.perf_counter()))
            client.put(sender, [encoded(time.time_ns().to_bytes(8, "big").ljust(200))])
        delays = _delays_of(taker)
    for percent, ceiling in ((50, 1.5), (99, 6)):
        name = f"AMQP put to get, durable, {_PER_SECOND}/s, p{percent}"
        yield at_most(name, percentile(delays, percent), ceiling, " ms")


def _delays(ours: AmqpPeer, ahead_ms: int) -> Iterator[Figure]:
    """Delayed messages that another client waits for: how late each of them comes."""
    random, first_ms = Random(1), round(time.time() * 1_000) + ahead_ms
    with _taker(ours, _LATE) as taker, closing(_client(ours)) as client:
        messages = []
        for _ in range(_LATE):
            due_ms = first_ms + random.randrange(_WINDOW_MS)
            body = (due_ms * 1_000_000).to_bytes(8, "big").ljust(200)
            messages.append(encoded(body, annotations={"x-opt-delivery-time": due_ms}))
        client.put(client.sender(ours.address), messages)
        slack_ms = first_ms - time.time() * 1_000
        delays = _delays_of(taker)
    note = f"the first is due {slack_ms:,.0f} ms after the puts"
    for percent, ceiling in ((50, 10), (99, 100)):
        name = f"AMQP {_LATE:,} delayed over {_WINDOW_MS // 1_000} s, arrival - due, p{percent}"
        yield at_most(name, percentile(delays, percent), ceiling, " ms", note)


def _lives(ours: AmqpPeer, ahead_ms: int) -> Iterator[Figure]:
    """Messages of many lives that nobody gets; :func:`_ended` looks when they went."""
    random, first_ms = Random(2), round(time.time() * 1_000) + ahead_ms
    with closing(_client(ours)) as client:
        sender = client.sender(ours.address)
        for _ in range(_LATE // 1_000):
            now_ms = time.time() * 1_000
            ends_ms = [first_ms + random.randrange(_WINDOW_MS) for _ in range(1_000)]
            # On a machine that is too busy the first ones are late; the note says so.
            lives_ms = [max(end_ms - now_ms, 1) for end_ms in ends_ms]
            client.put(sender, [encoded(bytes(200), ttl=life / 1_000) for life in lives_ms])
    slack_ms = first_ms - time.time() * 1_000
    time.sleep(max(0.0, slack_ms + _WINDOW_MS + 3_000) / 1_000)
    yield Figure(
        f"AMQP {_LATE:,} of many lives are put", "-", "", True, f"{slack_ms:,.0f} ms before"
    )


def _ended(home: Path) -> Iterator[Figure]:
    with QueueManager("BENCH", home / "BENCH") as manager:
        rows, late_ms = manager.engine.ledger.page(0, 10_000_000), []
        for row in rows:
            life = dict(zip(LEDGER_COLUMNS, row, strict=True))
            if life["kind"] == KIND_LIFE and life["outcome"] == "expired":
                late_ms.append(life["ended_ms"] - life["expire_at_ms"])
    name = f"AMQP {len(late_ms):,} expired with no consumer, end - deadline"
    yield at_most(f"{name}, latest", max(late_ms, default=0), 1_000, " ms", "EXPRYINT(1)")
    yield at_least(f"{name}, how many", len(late_ms), _LATE, "")


def _idle(ours: AmqpPeer, *, is_tls: bool) -> Iterator[Figure]:
    before = _resident_kib(ours.pid)
    clients = [_client(ours, is_tls=is_tls) for _ in range(_IDLE)]
    grown = (_resident_kib(ours.pid) - before) / 1_024
    for client in clients:
        client.close()
    kind = "TLS" if is_tls else "plain"
    ceiling = 200 if is_tls else 100
    yield at_most(f"memory of {_IDLE:,} idle AMQP connections, {kind}", grown, ceiling, " MB")


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
