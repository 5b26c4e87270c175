"""Open consoles: what a hundred streams of live figures cost the server, beside puts."""

from __future__ import annotations

import asyncio
import base64
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import uvloop

from bench.child import processor_seconds
from bench.figures import Figure, at_least, at_most, median
from bench.http import BODY, CREATED, PASSWORD, Server, request, served

_CONSOLES, _CONNECTIONS, _PUTS_A_SECOND = 100, 16, 1_000
_ROUNDS, _SECONDS = 5, 8.0
_USER: Final = base64.b64encode(f"admin:{PASSWORD}".encode()).decode()
_LOOK: Final = (
    "GET /mayfly/v1/qmgr/BENCH/events HTTP/1.1\r\n"
    f"Host: bench\r\nAuthorization: Basic {_USER}\r\n\r\n"
).encode()


def figures() -> Iterator[Figure]:
    """Measure the processor time of the server in turn, with and without consoles."""
    with tempfile.TemporaryDirectory() as home, served(Path(home)) as server:
        rounds = uvloop.run(_rounds(server))
    idle = [one.idle for one in rounds]
    name = f"{_CONSOLES} consoles beside 2 puts/s"
    yield at_most(name, median(idle), 0.05, " of a core", samples=idle)
    shares = [one.busy - one.alone for one in rounds]
    note = f"puts alone: {median(one.alone for one in rounds):.2f}"
    name = f"{_CONSOLES} consoles beside {_PUTS_A_SECOND:,} puts/s"
    yield at_most(name, median(shares), 0.05, " of a core", note, samples=shares)
    frames = min(one.frames for one in rounds)
    yield at_least("frames a second that a console has read", frames, 0.8, "/s")


class _Round:
    """The shares of a core in one round, and frames that each console has read a second."""

    def __init__(self, idle: float, alone: float, busy: float, frames: float) -> None:
        self.idle, self.alone, self.busy, self.frames = idle, alone, busy, frames


async def _rounds(server: Server) -> list[_Round]:
    found = []
    for _ in range(_ROUNDS):
        async with _consoles(server):
            # So that each second has a frame for all of them.
            idle = await _share(server, 1)
        alone = await _share(server, _CONNECTIONS)
        async with _consoles(server) as counts:
            before = min(counts)
            busy = await _share(server, _CONNECTIONS)
            frames = (min(counts) - before) / _SECONDS
        found.append(_Round(idle, alone, busy, frames))
    return found


async def _share(server: Server, connections: int) -> float:
    """Return the share of a core that the server takes for a time; one connection puts slowly."""
    before = processor_seconds(server.pid)
    pace = 0.5 if connections == 1 else connections / _PUTS_A_SECOND
    work = [_putting(server, pace) for _ in range(connections)]
    await asyncio.gather(asyncio.sleep(_SECONDS), *work)
    return (processor_seconds(server.pid) - before) / _SECONDS


async def _putting(server: Server, pace: float) -> None:
    """Put on one connection, one message in so many seconds."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    loop, asked = asyncio.get_running_loop(), request("POST", BODY)
    due = loop.time()
    for _ in range(int(_SECONDS / pace)):
        await asyncio.sleep(due - loop.time())
        due += pace
        writer.write(asked)
        head = await reader.readuntil(b"\r\n\r\n")
        assert int(head[9:12]) == CREATED, head
    writer.close()


@asynccontextmanager
async def _consoles(server: Server) -> AsyncIterator[list[int]]:
    """Have consoles open for a block; the list counts the frames that each has read."""
    counts, readers = [0] * _CONSOLES, list[asyncio.Task[None]]()
    async with AsyncExitStack() as ends:
        for number in range(_CONSOLES):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            ends.callback(writer.close)
            writer.write(_LOOK)
            readers.append(asyncio.create_task(_read(reader, counts, number)))
            # The first one's password is remembered for the others.
            while not counts[0]:
                await asyncio.sleep(0.01)
        while not all(counts):
            await asyncio.sleep(0.01)
        yield counts
        for task in readers:
            task.cancel()


async def _read(reader: asyncio.StreamReader, counts: list[int], number: int) -> None:
    while True:
        line = await reader.readline()
        assert line, "the stream has broken"
        counts[number] += line.startswith(b"id: ")
