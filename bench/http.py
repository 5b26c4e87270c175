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

from bench.figures import Figure, at_least, median, seconds_of
from mayfly import QueueManager

#: The user app of --dev has authority for names that begin with DEV.
_QUEUE: Final = "DEV.BENCH"
_USER, _PASSWORD = "app", "bench-password"
_BODY: Final = b"x" * 200
_ROUNDS, _CONNECTIONS, _EACH = 3, 16, 400
_PATH: Final = f"/ibmmq/rest/v3/messaging/qmgr/BENCH/queue/{_QUEUE}/message"
_CREATED, _OK, _FORBIDDEN = 201, 200, 403


class _Rates(NamedTuple):
    """Puts and gets a second of each round, in one process and by HTTP; and refusals by HTTP."""

    puts_here: list[float]
    gets_here: list[float]
    puts: list[float]
    gets: list[float]
    refusals: list[float]


def figures() -> Iterator[Figure]:
    """Measure in turn, in one process and by HTTP."""
    rates = _Rates([], [], [], [], [])
    with tempfile.TemporaryDirectory() as home, _served(Path(home)) as port:
        for _ in range(_ROUNDS):
            _measure_here(rates)
            rates.puts.append(_rate(port, _request("POST", _BODY), _CREATED))
            rates.gets.append(_rate(port, _request("DELETE"), _OK))
            rates.refusals.append(_rate(port, _request("DELETE", csrf=False), _FORBIDDEN))
    yield from _compared("puts", rates.puts, rates.puts_here, 2_500)
    yield from _compared("gets", rates.gets, rates.gets_here, 1_500)
    # No queue manager is asked: parsing, dispatch and answer are what it costs.
    yield at_least(
        "HTTP requests refused for want of a header", median(rates.refusals), 4_000, "/s"
    )


def _compared(what: str, far: list[float], here: list[float], floor: int) -> Iterator[Figure]:
    note = f"16 connections; 16 threads in one process: {median(here):,.0f}/s"
    yield at_least(f"durable {what} by HTTP", median(far), floor, "/s", note)
    ratio = median(a / b for a, b in zip(far, here, strict=True))
    yield at_least(f"durable {what} by HTTP beside those in one process", ratio, 0.35, "x")


@contextmanager
def _served(home: Path) -> Iterator[int]:
    """Serve a queue manager by the command that serves one; yield the port of HTTP."""
    script = home / "objects.mqsc"
    script.write_text(f"DEFINE QLOCAL({_QUEUE}) MAXDEPTH(999999999)\n", "utf-8")
    command = [sys.executable, "-m", "mayfly", "serve", "BENCH", "--dev", "--json"]
    command += ["--http", "127.0.0.1:0", "--mqsc", str(script)]
    environment = {**os.environ, "MAYFLY_HOME": str(home), "MAYFLY_APP_PASSWORD": _PASSWORD}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            addresses = json.loads(server.stdout.readline())
            yield int(addresses["http"].rpartition(":")[2])
        finally:
            server.terminate()


def _request(method: str, body: bytes = b"", *, csrf: bool = True) -> bytes:
    user = base64.b64encode(f"{_USER}:{_PASSWORD}".encode()).decode()
    lines = [f"{method} {_PATH} HTTP/1.1", "Host: bench", f"Authorization: Basic {user}"]
    if csrf:
        lines.append("ibm-mq-rest-csrf-token: bench")
    if body:
        lines.append("Content-Type: text/plain;charset=utf-8")
        lines.append("ibm-mq-md-persistence: persistent")
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def _rate(port: int, request: bytes, status: int) -> float:
    """Return how many requests are answered in a second, each with the status."""

    async def ask() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(_EACH):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert int(head[9:12]) == status, head
            _, _, rest = head.partition(b"content-length: ")
            await reader.readexactly(int(rest.partition(b"\r")[0] or 0))
        writer.close()

    async def ask_all() -> None:
        await asyncio.gather(*(ask() for _ in range(_CONNECTIONS)))

    return _CONNECTIONS * _EACH / seconds_of(lambda: uvloop.run(ask_all()))


def _measure_here(rates: _Rates) -> None:
    with tempfile.TemporaryDirectory() as folder, QueueManager("BENCH", Path(folder)) as manager:
        manager.mqsc(f"DEFINE QLOCAL({_QUEUE}) MAXDEPTH(999999999)")

        def putting() -> Callable[[], object]:
            session = manager.session()
            return lambda: session.put(_QUEUE, _BODY, persistent=True)

        def getting() -> Callable[[], object]:
            session = manager.session()
            return lambda: session.get(_QUEUE)

        rates.puts_here.append(_together(putting))
        rates.gets_here.append(_together(getting))


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
