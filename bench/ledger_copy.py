"""How fast a ledger is copied into a lake, by the command and beside reading it alone."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from bench.child import in_child
from bench.figures import Figure, at_least, median, seconds_of
from bench.messaging import BODY
from mayfly import QueueManager
from mayfly.pipeline.bulk.client import LedgerClient
from mayfly.pipeline.lake.check import check_lake
from mayfly.pipeline.lake.copying import copy_ledger, opened
from mayfly.servers.flight import FlightServer

_COUNT = int(os.environ.get("MAYFLY_BENCH_COPIED_LIVES", "2000000"))
_PER_UNIT = 1_000
_ROUNDS = 3


def figures() -> Iterator[Figure]:
    """Copy a prepared ledger by the command; its server is in this process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        token_file = folder / "token"
        token_file.write_text(secrets.token_hex(16))
        token_file.chmod(0o600)
        with QueueManager("BENCH", folder / "BENCH") as manager:
            _live_and_die(manager, _COUNT)
            with FlightServer(manager, port=0, token=token_file.read_text()) as server:
                seconds, rows = _copied(server.url, token_file, folder / "lake")
                beside = [in_child(_ways_seconds, server.url, token_file) for _ in range(_ROUNDS)]
        problems = check_lake(folder / "lake").texts
        assert not problems, problems
    note = f"{rows:,} rows in {seconds:.1f} s, start of the command included; lake verified"
    yield at_least("ledger into a lake of Parquet files", rows / seconds, 120_000, " lives/s", note)
    for way in ("Parquet files", "Delta tables"):
        ratios = [ways["dropped"] / ways[way] for ways in beside]
        rate = rows / min(ways[way] for ways in beside)
        note = f"{rate:,.0f} rows/s; start of the command left out"
        name = f"ledger into {way} beside reading it and dropping the rows"
        yield at_least(name, median(ratios), 0.8, "x", note, samples=ratios)


def _ways_seconds(url: str, token_file: Path) -> dict[str, float]:
    """Return how long this process takes to read a ledger, and to copy it, by what it becomes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        LedgerClient(url, token_file=token_file) as client,
    ):
        info = client.info()
        rows = client.read(info.first_position - 1, info.last_position)
        dropped_seconds = seconds_of(lambda: deque(rows, maxlen=0))

        def copy(as_delta: bool) -> None:
            with opened(Path(folder, str(as_delta)), info.instance_id, as_delta=as_delta) as lake:
                deque(copy_ledger(client, lake), maxlen=0)

        return {
            "dropped": dropped_seconds,
            "Parquet files": seconds_of(lambda: copy(as_delta=False)),
            "Delta tables": seconds_of(lambda: copy(as_delta=True)),
        }


def _copied(url: str, token_file: Path, lake: Path) -> tuple[float, int]:
    """Return the seconds that the command takes, and the number of rows that it copies."""
    command = [sys.executable, "-m", "mayfly", "ledger", "run", str(lake), "--url", url]
    command += ["--token-file", str(token_file), "--available-now", "--json"]
    began = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began, json.loads(done.stdout)["rows"]


def _live_and_die(manager: QueueManager, count: int) -> None:
    manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")
    with manager.session(transacted=True) as session:
        for _ in range(count // _PER_UNIT):
            for _ in range(_PER_UNIT):
                session.put("Q1", BODY, persistent=True)
            session.commit()
            for _ in range(_PER_UNIT):
                session.get("Q1")
            session.commit()
