"""A C program over its library, beside the same puts and gets by pymqi and by a connection.

All are programs of one process each, over loopback to one server, in turn: one verb after the
other, not persistent, outside of syncpoint. The C program does it twice: with an answer to each
verb, and with asynchronous puts and messages that are read ahead. Bare round trips of one byte
between two C programs say what the machine allows a verb with an answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.figures import Figure, at_least, at_most, median, without_aim
from mayfly import QueueManager, pymqi
from mayfly.admin.security.admission import Admission
from mayfly.client.connection.endpoint import Address, Endpoint
from mayfly.client.connection.remote import connect
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.pymqi.libmqm.library import CannotBuild, compiler, install, variables
from mayfly.servers.wire import WireServer
from mayfly.verbs import requests as ask

_HOST: Final = "127.0.0.1"
_CHANNEL: Final = "BENCH.SVRCONN"
_BODY: Final = bytes(200)
_MAKES: Final = ("connection", "pymqi", "c", "streamed", "round trips")


class Size(NamedTuple):
    """How much is measured: ``messages`` puts and as many gets of each make in each round."""

    rounds: int = 7
    messages: int = 1_000
    starts: int = 5


#: What is measured unless something else is asked for.
USUAL: Final = Size()


class Rates(NamedTuple):
    """Puts and gets a second."""

    put: float
    get: float


def figures(size: Size = USUAL) -> Iterator[Figure]:
    """Measure everything of this file; without a C compiler nothing."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        try:
            install(Path(folder) / "installed")
            program = _compiled(Path(folder), "libmqm", "-lmqm_r")
            round_trips = _compiled(Path(folder), "round_trips")
        except CannotBuild as why:
            yield Figure("libmqm", "-", "-", True, str(why))
            return
        port = stack.enter_context(_served(Path(folder) / "BENCH"))
        environment = os.environ | variables(Path(folder) / "installed")
        environment["MQSERVER"] = f"{_CHANNEL}/TCP/{_HOST}({port})"
        starts = [_start_seconds(program, environment) for _ in range(size.starts)]
        yield at_most("start of a C program, to MQOPEN", median(starts), 0.5, " s", samples=starts)
        count = str(size.messages)
        commands = {
            "connection": [sys.executable, "-m", "bench.libmqm", "connection", str(port), count],
            "pymqi": [sys.executable, "-m", "bench.libmqm", "pymqi", str(port), count],
            "c": [str(program), count],
            "streamed": [str(program), count, "streamed"],
            "round trips": [str(round_trips), count],
        }
        running = {
            make: stack.enter_context(_running(command, environment))
            for make, command in commands.items()
        }
        rates: dict[str, list[Rates]] = {make: [] for make in _MAKES}
        for _ in range(size.rounds):
            for make, each in running.items():
                rates[make].append(_round(each, size.messages))
    for verb, aim, way in (("put", 10_000, "asynchronous"), ("get", 8_000, "read ahead")):
        of = {make: [getattr(each, verb) for each in rates[make]] for make in _MAKES}
        bare = f"bare round trips {median(of['round trips']):,.0f}/s"
        note = f"a connection {median(of['connection']):,.0f}/s, pymqi {median(of['pymqi']):,.0f}/s"
        name = f"non-persistent {verb} of a C program"
        yield at_least(f"{name}, {way}", median(of["streamed"]), aim, "/s", samples=of["streamed"])
        # Its bound is the round trip, so it has no aim of its own.
        yield without_aim(
            name, median(of["c"]), "/s", f"{note}, {bare}", is_rate=True, samples=of["c"]
        )
        for make, floor in (("connection", 0.8), ("pymqi", 1.0)):
            ratios = [a / b for a, b in zip(of["c"], of[make], strict=True)]
            yield at_least(f"{name}, beside {make}", median(ratios), floor, "x", samples=ratios)


def _compiled(folder: Path, name: str, *libraries: str) -> Path:
    """Return the path of a C program of this folder, compiled; raises CannotBuild."""
    program, source = folder / name, Path(__file__).parent / f"{name}.c"
    words = [compiler(), "-O2", str(source), "-o", str(program), *libraries]
    subprocess.run(words, env=os.environ | variables(folder / "installed"), check=True)
    return program


@contextmanager
def _served(folder: Path) -> Iterator[int]:
    """Serve a queue manager of a folder in a process; yield its port."""
    with _running([sys.executable, "-m", "bench.libmqm", "serve", str(folder)], None) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())


@contextmanager
def _running(
    command: list[str], environment: dict[str, str] | None
) -> Iterator[subprocess.Popen[str]]:
    """Run a program, which says that it is ready, until its input ends."""
    pipe = subprocess.PIPE
    program = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
    assert program.stdout is not None
    try:
        if program.stdout.readline() != "ready\n":
            raise RuntimeError(f"{command[0]} did not get ready")
        yield program
    finally:
        program.communicate("")


def _start_seconds(program: Path, environment: dict[str, str]) -> float:
    """Return how long a C program takes from its start until its queue is open."""
    begin = time.perf_counter()
    with _running([str(program)], environment):
        return time.perf_counter() - begin


def _round(program: subprocess.Popen[str], count: int) -> Rates:
    """Let a program put and get, and return its rates."""
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("\n")
    program.stdin.flush()
    put, get = map(float, program.stdout.readline().split())
    return Rates(count / put, count / get)


def _serve(folder: str) -> None:
    sys.setswitchinterval(0.0005)
    with QueueManager("BENCH", folder) as manager:
        manager.mqsc(
            "DEFINE QLOCAL(Q1) MAXDEPTH(999999999)\n"
            "ALTER QMGR CHLAUTH(DISABLED) CONNAUTH(' ')\n"
            f"DEFINE CHANNEL({_CHANNEL}) CHLTYPE(SVRCONN) MCAUSER('bench')\n"
            "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bench') AUTHADD(CONNECT)\n"
            "SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('bench') AUTHADD(PUT,GET)"
        )
        server = WireServer([manager], Admission([manager.engine]))
        print("ready", server.listen_tcp(_HOST, 0), sep="\n", flush=True)
        sys.stdin.read()
        server.close()


def _say_rounds(put: Callable[[], object], get: Callable[[], object], count: int) -> None:
    """Put and get for each line of the input, and say the seconds of both."""
    print("ready", flush=True)
    for _ in sys.stdin:
        seconds = []
        for verb in (put, get):
            begin = time.perf_counter()
            for _ in range(count):
                verb()
            seconds.append(time.perf_counter() - begin)
        print(*seconds, flush=True)


def _connection(port: str, count: str) -> None:
    endpoint = Endpoint((Address(_HOST, int(port)),), _CHANNEL, "BENCH")
    connection = connect(endpoint)
    queue = connection.call(ask.Open("Q1", c.MQOO_OUTPUT | c.MQOO_INPUT_SHARED)).handle
    descriptor = Descriptor(persistence=c.MQPER_NOT_PERSISTENT)
    _say_rounds(
        lambda: connection.put(queue, _BODY, descriptor, c.MQPMO_NO_SYNCPOINT),
        lambda: connection.get(queue, c.MQGMO_NO_SYNCPOINT),
        int(count),
    )
    connection.close()


def _pymqi(port: str, count: str) -> None:
    manager = pymqi.connect("BENCH", _CHANNEL, f"{_HOST}({port})")
    queue = pymqi.Queue(manager, "Q1", c.MQOO_OUTPUT | c.MQOO_INPUT_SHARED)

    def put() -> None:
        md = pymqi.MD(Persistence=c.MQPER_NOT_PERSISTENT)
        queue.put(_BODY, md, pymqi.PMO(Options=c.MQPMO_NO_SYNCPOINT))

    def get() -> None:
        queue.get(None, pymqi.MD(), pymqi.GMO(Options=c.MQGMO_NO_SYNCPOINT))

    _say_rounds(put, get, int(count))
    manager.disconnect()


if __name__ == "__main__":
    roles: dict[str, Callable[..., None]] = {
        "serve": _serve,
        "connection": _connection,
        "pymqi": _pymqi,
    }
    roles[sys.argv[1]](*sys.argv[2:])
