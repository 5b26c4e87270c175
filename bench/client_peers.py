"""Programs and their server, durable and one by one, beside the servers of other makes.

Redis' list and the table of PostgreSQL are as in ``units``. A message of Redis is gone when it is
popped; RabbitMQ and Artemis do not answer an acknowledgement, the others do.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

from bench.amqp_peers import start_artemis, start_rabbitmq
from bench.figures import Beside, Figure, median, seconds_of
from bench.peer_process import NotHere, client_library
from bench.peer_servers import postgres_folder, redis_socket, start_nats
from bench.queue_clients import BODY_BYTES, CLIENTS, QUEUES, make_queues


class Size(NamedTuple):
    """How much is measured."""

    rounds: int = 3
    trips: int = 300
    processes: int = 16
    puts_each: int = 400
    #: Of a program that is alone.
    puts_alone: int = 1_000
    has_peers: bool = True


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(1, 3, 2, 2, 2, has_peers=False)
#: All of this part is beside its peers.
BESIDE: Final = USUAL


class _Measured(NamedTuple):
    """Figures of one make: ms of a put, ms from a put to its waiting getter, puts a second."""

    put_ms: float
    put_to_get_ms: float
    rate_alone: float
    rate_together: float


def figures(size: Size = USUAL) -> Iterator[Figure | Beside]:
    """Measure all makes in turn, and tell how ours stands beside the others."""
    with ExitStack() as stack:
        addresses, missing = _started(stack, has_peers=size.has_peers)
        rounds = [
            {make: _measured(make, address, size) for make, address in addresses.items()}
            for _ in range(size.rounds)
        ]
    for number, (name, unit, is_rate) in enumerate(
        (
            ("durable put of a program, p50", " ms", False),
            ("durable put to get in another program, p50", " ms", False),
            ("1 program of single durable puts", "/s", True),
            (f"{size.processes} programs of single durable puts", "/s", True),
        )
    ):
        values = {make: [found[make][number] for found in rounds] for make in addresses}
        beside = Beside(name, unit, is_rate, values)
        yield beside
        yield beside.figure(missing)


def _started(stack: ExitStack, *, has_peers: bool) -> tuple[dict[str, str], list[str]]:
    """Start what is installed; return the addresses, and why something is missing."""
    found, missing = {"Mayfly": _mayfly(stack)}, list[str]()
    peers: tuple[tuple[str, Callable[[ExitStack], str]], ...] = (
        ("Redis", redis_socket),
        ("PostgreSQL", postgres_folder),
        ("RabbitMQ", _rabbitmq),
        ("NATS", lambda own: start_nats(own).port),
        ("Artemis", _artemis),
    )
    for make, start in peers if has_peers else ():
        try:
            found[make] = start(stack)
        except NotHere as why:
            missing.append(str(why))
    for make, address in found.items():
        make_queues(make, address)
    return found, missing


def _mayfly(stack: ExitStack) -> str:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    server = stack.enter_context(_program("bench.remote_clients", "serve", folder))
    assert server.stdout is not None
    # Its ports: plain, and with TLS.
    return server.stdout.readline().split()[0]


def _rabbitmq(stack: ExitStack) -> str:
    client_library("pika")
    return str(start_rabbitmq(stack).port)


def _artemis(stack: ExitStack) -> str:
    client_library("proton")
    peer = start_artemis(stack)
    return f"{peer.port} {peer.user} {peer.password}"


@contextmanager
def _program(*words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            yield program
        finally:
            program.communicate("")


def _measured(make: str, address: str, size: Size) -> _Measured:
    consumed, filled = QUEUES
    client = CLIENTS[make](address, consumed)
    puts: list[float] = []
    words = ("bench.queue_clients", "wait", make, address, consumed, str(size.trips))
    with _program(*words) as waiter:
        assert waiter.stdout is not None
        waiter.stdout.readline()
        delays = []
        for _ in range(size.trips):
            # The getter waits again; it has none left, so no message waits for those before it.
            time.sleep(0.002)
            body = time.perf_counter_ns().to_bytes(8, "big") + os.urandom(BODY_BYTES - 8)
            puts.append(seconds_of(lambda body=body: client.put(body)))  # type: ignore[misc]  # bound here
            delays.append(int(waiter.stdout.readline()) / 1e6)
    client.close()
    alone = _rate(make, address, filled, 1, size.puts_alone)
    together = _rate(make, address, filled, size.processes, size.puts_each)
    return _Measured(median(puts) * 1_000, median(delays), alone, together)


def _rate(make: str, address: str, queue: str, processes: int, puts_each: int) -> float:
    """Return how many messages so many programs put in a second."""
    words = ("bench.queue_clients", "put", make, address, queue, str(puts_each))
    with ExitStack() as stack:
        programs = [stack.enter_context(_program(*words)) for _ in range(processes)]
        for program in programs:
            assert program.stdout is not None
            program.stdout.readline()

        def run() -> None:
            for program in programs:
                assert program.stdin is not None
                program.stdin.write("\n")
                program.stdin.flush()
            for program in programs:
                assert program.stdout is not None
                program.stdout.readline()

        return processes * puts_each / seconds_of(run)
