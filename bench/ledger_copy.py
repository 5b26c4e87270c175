"""How fast ``mayfly ledger run`` copies a ledger into a lake of Parquet files."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.figures import Figure, at_least
from bench.messaging import BODY
from mayfly import QueueManager
from mayfly.pipeline.lake.check import check_lake
from mayfly.servers.flight import FlightServer

_COUNT = int(os.environ.get("MAYFLY_BENCH_COPIED_LIVES", "2000000"))
_PER_UNIT = 1_000


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
        problems = check_lake(folder / "lake").texts
        assert not problems, problems
    note = f"{rows:,} rows in {seconds:.1f} s, start of the command included; lake verified"
    yield at_least("ledger into a lake of Parquet files", rows / seconds, 120_000, " lives/s", note)


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
