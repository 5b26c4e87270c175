"""Programs and their server, beside Redis, PostgreSQL and RabbitMQ where they are installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from bench.amqp_peers import start_rabbitmq
from bench.figures import Figure, median, seconds_of
from bench.peer_servers import (
    NotHere,
    client_library,
    postgres_folder,
    redis_socket,
)
from bench.queue_clients import CLIENTS, QUEUES, make_queues

_ROUNDS, _TRIPS = 3, 300
_PROCESSES, _PUTS_EACH = 16, 100


class _Measured(NamedTuple):
    """Figures of one make: ms of a put, ms from a put to its waiting getter, puts a second."""

    put_ms: float
    put_to_get_ms: float
    rate: float


def figures() -> Iterator[Figure]:
    """Measure all makes in turn, and tell how ours stands beside the others."""
    with ExitStack() as stack:
        addresses, missing = _started(stack)
        rounds = [
            {make: _measured(make, address) for make, address in addresses.items()}
            for _ in range(_ROUNDS)
        ]
    medians = {
        make: _Measured(
            *(median(values) for values in zip(*(r[make] for r in rounds), strict=True))
        )
        for make in addresses
    }
    for name, told in (
        ("durable put of a program, p50", lambda found: f"{found.put_ms:.2f} ms"),
        (
            "durable put to get in another program, p50",
            lambda found: f"{found.put_to_get_ms:.2f} ms",
        ),
        ("16 programs of single durable puts", lambda found: f"{found.rate:,.0f}/s"),
    ):
        yield _figure(name, medians, told, missing)


def _figure(
    name: str,
    found: dict[str, _Measured],
    told: Callable[[_Measured], str],
    missing: list[str],
) -> Figure:
    others = [f"{make} {told(each)}" for make, each in found.items() if make != "Mayfly"]
    return Figure(name, told(found["Mayfly"]), "-", True, "; ".join([*others, *missing]))


def _started(stack: ExitStack) -> tuple[dict[str, str], list[str]]:
    """Start what is installed; return the addresses, and why something is missing."""
    found, missing = {"Mayfly": _mayfly(stack)}, []
    for make, start in (
        ("Redis", redis_socket),
        ("PostgreSQL", postgres_folder),
        ("RabbitMQ", _rabbitmq),
    ):
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


@contextmanager
def _program(*words: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            yield program
        finally:
            program.communicate("")


def _measured(make: str, address: str) -> _Measured:
    consumed, filled = QUEUES
    client = CLIENTS[make](address, consumed)
    puts: list[float] = []
    with _program("bench.queue_clients", "wait", make, address, consumed, str(_TRIPS)) as waiter:
        assert waiter.stdout is not None
        waiter.stdout.readline()
        delays = []
        for _ in range(_TRIPS):
            # The getter waits again; it has none left, so no message waits for those before it.
            time.sleep(0.002)
            body = time.perf_counter_ns().to_bytes(8, "big") + os.urandom(192)
            puts.append(seconds_of(lambda body=body: client.put(body)))  # type: ignore[misc]  # bound here
            delays.append(int(waiter.stdout.readline()) / 1e6)
    return _Measured(median(puts) * 1_000, median(delays), _rate(make, address, filled))


def _rate(make: str, address: str, queue: str) -> float:
    """Return how many messages 16 programs put in a second."""
    words = ("bench.queue_clients", "put", make, address, queue, str(_PUTS_EACH))
    with ExitStack() as stack:
        programs = [stack.enter_context(_program(*words)) for _ in range(_PROCESSES)]
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

        return _PROCESSES * _PUTS_EACH / seconds_of(run)
