"""IBM's REST API: durable puts and gets of 16 connections, beside 16 threads in one process."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import uvloop

from bench.child import processor_seconds
from bench.figures import Figure, at_least, at_most, median, seconds_of
from mayfly import QueueManager

#: The user app of --dev has authority for names that begin with DEV.
QUEUE: Final = "DEV.BENCH"
_USER, PASSWORD = "app", "bench-password"
BODY: Final = b"x" * 200
_ROUNDS, _CONNECTIONS, _EACH = 3, 16, 400
_PATH: Final = f"/ibmmq/rest/v3/messaging/qmgr/BENCH/queue/{QUEUE}/message"
CREATED, _OK, _FORBIDDEN = 201, 200, 403


class Server(NamedTuple):
    """A served queue manager: its port for HTTP, its process."""

    port: int
    pid: int


class _Measured(NamedTuple):
    """Requests of one kind by HTTP: how many a second, and processor time of the server for one."""

    rate: float
    processor_ms: float


class _Rounds(NamedTuple):
    """Figures of each round: puts and gets a second in one process, and requests by HTTP."""

    puts_here: list[float]
    gets_here: list[float]
    puts: list[_Measured]
    gets: list[_Measured]
    refusals: list[_Measured]


def figures() -> Iterator[Figure]:
    """Measure in turn, in one process and by HTTP."""
    rounds = _Rounds([], [], [], [], [])
    with tempfile.TemporaryDirectory() as home, served(Path(home)) as server:
        for _ in range(_ROUNDS):
            _measure_here(rounds)
            rounds.puts.append(_measured(server, request("POST", BODY), CREATED))
            rounds.gets.append(_measured(server, request("DELETE"), _OK))
            refused = request("DELETE", csrf=False)
            rounds.refusals.append(_measured(server, refused, _FORBIDDEN))
    yield from _compared("put", rounds.puts, rounds.puts_here, 2_500)
    yield from _compared("get", rounds.gets, rounds.gets_here, 1_500)
    # No queue manager is asked: the figure is the cost of parsing, dispatch and answer.
    costs_ms, name = [e.processor_ms for e in rounds.refusals], "an HTTP request that is refused"
    yield at_most(f"processor time of {name}", median(costs_ms), 0.2, " ms", samples=costs_ms)


def _compared(what: str, far: list[_Measured], here: list[float], floor: int) -> Iterator[Figure]:
    note = f"16 connections; 16 threads in one process: {median(here):,.0f}/s"
    rates = [each.rate for each in far]
    yield at_least(f"durable {what}s by HTTP", median(rates), floor, "/s", note, samples=rates)
    ratios = [a.rate / b for a, b in zip(far, here, strict=True)]
    name = f"durable {what}s by HTTP beside those in one process"
    yield at_least(name, median(ratios), 0.35, "x", samples=ratios)
    # It says on a busy machine as well how many one interpreter can do in a second at most.
    costs_ms = [each.processor_ms for each in far]
    cost_ms = median(costs_ms)
    name, note = f"processor time of a durable {what} by HTTP", f"at most {1_000 / cost_ms:,.0f}/s"
    yield at_most(name, cost_ms, 1_000 / floor, " ms", note, samples=costs_ms)


@contextmanager
def served(home: Path) -> Iterator[Server]:
    """Serve a queue manager by the command that serves one."""
    script = home / "objects.mqsc"
    script.write_text(f"DEFINE QLOCAL({QUEUE}) MAXDEPTH(999999999)\n", "utf-8")
    command = [sys.executable, "-m", "mayfly", "serve", "BENCH", "--dev", "--json"]
    command += ["--http", "127.0.0.1:0", "--mqsc", str(script)]
    passwords = dict.fromkeys(("MAYFLY_APP_PASSWORD", "MAYFLY_ADMIN_PASSWORD"), PASSWORD)
    environment = {**os.environ, "MAYFLY_HOME": str(home), **passwords}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            addresses = json.loads(server.stdout.readline())
            yield Server(int(addresses["http"].rpartition(":")[2]), server.pid)
        finally:
            server.terminate()


def request(method: str, body: bytes = b"", *, csrf: bool = True) -> bytes:
    """Return the bytes of a request of the user app for the queue."""
    user = base64.b64encode(f"{_USER}:{PASSWORD}".encode()).decode()
    lines = [f"{method} {_PATH} HTTP/1.1", "Host: bench", f"Authorization: Basic {user}"]
    if csrf:
        lines.append("ibm-mq-rest-csrf-token: bench")
    if body:
        lines.append("Content-Type: text/plain;charset=utf-8")
        lines.append("ibm-mq-md-persistence: persistent")
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def _measured(server: Server, request: bytes, status: int) -> _Measured:
    """Measure requests that are answered with a status."""

    async def ask() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for _ in range(_EACH):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert int(head[9:12]) == status, head
            _, _, rest = head.partition(b"content-length: ")
            await reader.readexactly(int(rest.partition(b"\r")[0] or 0))
        writer.close()

    async def ask_all() -> None:
        await asyncio.gather(*(ask() for _ in range(_CONNECTIONS)))

    count, before = _CONNECTIONS * _EACH, processor_seconds(server.pid)
    seconds = seconds_of(lambda: uvloop.run(ask_all()))
    spent_ms = (processor_seconds(server.pid) - before) * 1_000
    return _Measured(count / seconds, spent_ms / count)


def _measure_here(rounds: _Rounds) -> None:
    with tempfile.TemporaryDirectory() as folder, QueueManager("BENCH", Path(folder)) as manager:
        manager.mqsc(f"DEFINE QLOCAL({QUEUE}) MAXDEPTH(999999999)")

        def putting() -> Callable[[], object]:
            session = manager.session()
            return lambda: session.put(QUEUE, BODY, persistent=True)

        def getting() -> Callable[[], object]:
            session = manager.session()
            return lambda: session.get(QUEUE)

        rounds.puts_here.append(_together(putting))
        rounds.gets_here.append(_together(getting))


def _together(make: Callable[[], Callable[[], object]]) -> float:
    """Return how many calls a second 16 threads make."""

    def run() -> None:
        verb = make()
        for _ in range(_EACH):
            verb()

    threads = [threading.Thread(target=run) for _ in range(_CONNECTIONS)]

    def run_all() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return _CONNECTIONS * _EACH / seconds_of(run_all)
