"""A client of a queue manager elsewhere is small: it loads no queue manager of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mayfly import QueueManager
from tests.client.processes import ROOT, serving

_PROGRAM = """
import sys
import mayfly

with mayfly.connect("QM1", transacted=True) as client:
    client.put("Q1", b"x", delay_ms=0, properties={"n": 1})
    client.commit()
    message = client.get("Q1")
    print(message.body[-1:], message.properties, client.schedule.count())
    client.commit()
OWN = {"mayfly.engine", "mayfly.store", "mayfly.queue_manager", "mayfly.admin"}
print(sorted(name for name in sys.modules if name in OWN))
"""


def test_a_client_of_a_server_loads_neither_engine_nor_store(tmp_path: Path) -> None:
    with QueueManager("QM1", tmp_path / "QM1") as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
    with serving(tmp_path, ["QM1"], "127.0.0.1:0"):
        ended = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            cwd=ROOT,
            env={**os.environ, "MAYFLY_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
    assert ended.stdout == "b'x' {'n': 1} 0\n[]\n"
