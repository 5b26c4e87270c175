"""Programs beside their server: round trips, units of work, waits and idle connections."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from bench import messaging
from bench.aims import max_cost
from bench.child import processor_seconds
from bench.figures import Figure, at_least, at_most, median, seconds_of
from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.admin.security.developer import CERTIFICATE_FILE, self_signed_certificate
from mayfly.client.connection import Connection, LocalConnection
from mayfly.client.connection.endpoint import Address, Endpoint, Tls
from mayfly.client.connection.remote import connect
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.runtime import SystemClock
from mayfly.servers.listeners import tls_context
from mayfly.servers.settings import TlsFiles
from mayfly.servers.wire import WireServer
from mayfly.verbs import requests as ask

BODY = os.urandom(200)
_HOST, _TOKEN = "127.0.0.1", "bench"
_PER_UNIT = 100
_BOTH_WAYS = c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT
_VOLATILE = Descriptor(persistence=c.MQPER_NOT_PERSISTENT)
_PERSISTENT = Descriptor(persistence=c.MQPER_PERSISTENT)


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 5
    trips: int = 1_000
    #: From one program to another, a round.
    waits: int = 50
    units: int = 20
    processes: int = 16
    puts_each: int = 400
    idle: int = 1_000
    idle_seconds: float = 5.0


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 5, 3, 1, 1, 2, 2, 0.01)


def figures(size: Size = USUAL) -> Iterator[Figure]:
    """Measure everything of this file."""
    with served() as server:
        yield from _round_trips(server.port, size)
        yield from _latencies(server.port, size)
    yield from _idle(size)
    yield from _units_of_work(size)
    yield from _processes(size)


class Server(NamedTuple):
    """A served queue manager: its ports, plain and under TLS, its certificate, its process."""

    port: int
    tls_port: int
    certificate: Path
    pid: int


def _connect(port: int, tls: Tls | None = None) -> Connection:
    return connect(Endpoint((Address(_HOST, port),), "", "BENCH", tls), "bench", _TOKEN)


@contextmanager
def _manager(folder: Path, replica: str | None = None) -> Iterator[QueueManager]:
    with QueueManager("BENCH", folder, replica=replica) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")
        yield manager


@contextmanager
def served(*replica: str) -> Iterator[Server]:
    """Serve a queue manager in a process of its own, with a replica if its URL is given."""
    with (
        tempfile.TemporaryDirectory() as folder,
        program_of_bench("serve", folder, *replica) as server,
    ):
        assert server.stdout is not None
        port, tls_port = map(int, server.stdout.readline().split())
        yield Server(port, tls_port, Path(folder) / CERTIFICATE_FILE, server.pid)


@contextmanager
def program_of_bench(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    program = subprocess.Popen(
        [sys.executable, "-m", "bench.remote_clients", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield program
    finally:
        program.communicate("")


def _round_trips(port: int, size: Size) -> Iterator[Figure]:
    connection = _connect(port)
    queue = connection.call(ask.Open("Q1", _BOTH_WAYS)).handle
    rounds: dict[str, list[list[float]]] = {"put": [], "get": []}
    for _ in range(size.rounds):
        put = partial(connection.put, queue, BODY, _VOLATILE)
        for verb, act in (("put", put), ("get", partial(connection.get, queue))):
            rounds[verb].append([seconds_of(act) for _ in range(size.trips)])
    connection.close()
    for verb, times in rounds.items():
        middles_ms = [median(each) * 1_000 for each in times]
        note = f"p99 {median(map(_p99, times)):.2f} ms"
        name = f"remote non-persistent {verb}, p50"
        aim = max_cost(0.12)
        yield at_most(name, median(middles_ms), aim, " ms", note, samples=middles_ms)


def _p99(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.99)] * 1_000


def _latencies(port: int, size: Size) -> Iterator[Figure]:
    """From the begin of a put to the return of a get that waits in another process."""
    connection = _connect(port)
    queue = connection.call(ask.Open("Q1", _BOTH_WAYS)).handle
    for name, descriptor, ceiling in (
        ("non-persistent", _VOLATILE, 0.35),
        ("durable", _PERSISTENT, 0.9),
    ):
        rounds = [
            _latency_ms(port, queue, connection, descriptor, size) for _ in range(size.rounds)
        ]
        title = f"put to get in another process, {name}, p50"
        yield at_most(title, median(rounds), ceiling, " ms", samples=rounds)
    connection.close()


def _latency_ms(
    port: int, queue: int, connection: Connection, descriptor: Descriptor, size: Size
) -> float:
    """Return the median of one round."""
    with program_of_bench("wait", str(port), str(size.waits)) as waiter:
        assert waiter.stdout is not None
        waiter.stdout.readline()
        for _ in range(size.waits):
            # The waiter waits again; no message waits for it.
            time.sleep(0.001)
            body = time.perf_counter_ns().to_bytes(8, "big")
            connection.put(queue, body, descriptor)
        return median(int(waiter.stdout.readline()) / 1e6 for _ in range(size.waits))


def _idle(size: Size) -> Iterator[Figure]:
    """Memory of a server for connections that do nothing, and its work for them."""
    for kind, ceiling in (("", 40), (" under TLS", 150)):
        # Each kind has a server of its own: it would reuse memory that the other has given back.
        with served() as server:
            tls = Tls(authorities=server.certificate) if kind else None
            port = server.tls_port if kind else server.port
            connections = [_connect(port, tls)]
            before = _resident_kib(server.pid)
            connections += [_connect(port, tls) for _ in range(size.idle)]
            grown = (_resident_kib(server.pid) - before) / 1_024
            yield at_most(f"memory of {size.idle} idle connections{kind}", grown, ceiling, " MB")
            begun = processor_seconds(server.pid)
            # The load of idle time is what is measured.
            time.sleep(size.idle_seconds)
            load = (processor_seconds(server.pid) - begun) / size.idle_seconds * 100
            yield at_most(f"processor time of {size.idle} idle connections{kind}", load, 1, " %")
            for connection in connections:
                connection.close()


def _resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def _units_of_work(size: Size) -> Iterator[Figure]:
    """Persistent puts, 100 a unit of work, in turn: in process, one by one, pipelined."""
    rates: dict[str, list[float]] = {"here": [], "one by one": [], "pipelined": []}
    for _ in range(size.rounds):
        with tempfile.TemporaryDirectory() as folder, _manager(Path(folder)) as manager:
            here = LocalConnection(manager.session(), manager)
            rates["here"].append(_rate(here, size.units, c.MQPMO_SYNCPOINT))
            here.close()
        with served() as server:
            far = _connect(server.port)
            rates["one by one"].append(_rate(far, size.units, c.MQPMO_SYNCPOINT))
            far.close()
        with served() as server:
            far = _connect(server.port)
            options = c.MQPMO_SYNCPOINT | c.MQPMO_ASYNC_RESPONSE
            rates["pipelined"].append(_rate(far, size.units, options))
            far.close()
    for name, floor in (("one by one", 0.35), ("pipelined", 0.6)):
        ratios = [a / b for a, b in zip(rates[name], rates["here"], strict=True)]
        note = f"{median(rates[name]):,.0f}/s against {median(rates['here']):,.0f}/s"
        title = f"remote persistent put, 100 a unit of work, {name}"
        yield at_least(title, median(ratios), floor, "x", note, samples=ratios)


def _rate(connection: Connection, units: int, options: int) -> float:
    queue = connection.call(ask.Open("Q1", c.MQOO_OUTPUT)).handle

    def put_all() -> None:
        for _ in range(units):
            for _ in range(_PER_UNIT):
                connection.put(queue, BODY, _PERSISTENT, options)
            connection.call(ask.Commit())

    return units * _PER_UNIT / seconds_of(put_all)


def _processes(size: Size) -> Iterator[Figure]:
    """Processes of single durable puts beside as many threads in process, in turn."""
    count, here, far = size.processes * size.puts_each, list[float](), list[float]()
    threads = messaging.Size(threads=size.processes, puts_each=size.puts_each)
    with served() as server, ExitStack() as stack:
        programs = putting_programs(stack, server.port, size.processes, size.puts_each)
        for _ in range(size.rounds):
            here.append(messaging.many_threads_rate(threads))
            far.append(count / seconds_of(partial(put_round, programs)))
    ratios = [a / b for a, b in zip(far, here, strict=True)]
    note = f"{median(far):,.0f}/s against {median(here):,.0f}/s"
    name = f"{size.processes} remote processes of single durable puts"
    yield at_least(name, median(ratios), 0.8, "x", note, samples=ratios)


def putting_programs(
    stack: ExitStack, port: int, processes: int, puts_each: int
) -> list[subprocess.Popen[str]]:
    """Start programs that are connected to a server, each of which puts so many a round."""
    words = ("put", str(port), str(puts_each))
    programs = [stack.enter_context(program_of_bench(*words)) for _ in range(processes)]
    for program in programs:
        assert program.stdout is not None
        program.stdout.readline()
    return programs


def put_round(programs: list[subprocess.Popen[str]]) -> None:
    """Let each program put a round, and wait for all."""
    for each in programs:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    for each in programs:
        assert each.stdout is not None
        each.stdout.readline()


def _serve(folder: str, replica: str | None = None) -> None:
    sys.setswitchinterval(0.0005)
    with _manager(Path(folder), replica) as manager:
        server = WireServer([manager], Admission([manager.engine], token=_TOKEN))
        files = self_signed_certificate(Path(folder), [_HOST], SystemClock().now_ms())
        tls = tls_context(TlsFiles(*files))
        print(server.listen_tcp(_HOST, 0), server.listen_tcp(_HOST, 0, tls), flush=True)
        sys.stdin.read()
        server.close()


def _wait(port: str, count: str) -> None:
    connection = _connect(int(port))
    queue = connection.call(ask.Open("Q1", _BOTH_WAYS)).handle
    print("ready", flush=True)
    delays = []
    for _ in range(int(count)):
        body = connection.get(queue, c.MQGMO_WAIT, wait_ms=c.MQWI_UNLIMITED).message.body
        delays.append(time.perf_counter_ns() - int.from_bytes(body, "big"))
    print(*delays, sep="\n", flush=True)
    connection.close()


def _put(port: str, count: str) -> None:
    connection = _connect(int(port))
    queue = connection.call(ask.Open("Q1", _BOTH_WAYS)).handle
    print("ready", flush=True)
    for _ in sys.stdin:
        for _ in range(int(count)):
            connection.put(queue, BODY, _PERSISTENT)
        print("done", flush=True)
    connection.close()


if __name__ == "__main__":
    roles: dict[str, Callable[..., None]] = {"serve": _serve, "wait": _wait, "put": _put}
    roles[sys.argv[1]](*sys.argv[2:])
