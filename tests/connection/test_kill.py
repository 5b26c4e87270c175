"""Deliveries across kill -9: what is not settled is there again, counted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.client.connection import LocalConnection
from mayfly.verbs import requests as ask
from tests.connection.scene import BOTH_WAYS, PERSISTENT, put

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_G8_what_a_killed_process_had_not_settled_is_there_again_and_counted(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "QM1"
    with QueueManager("QM1", folder) as manager:
        assert manager.mqsc("DEFINE QLOCAL(Q1)\nDEFINE QLOCAL(DEAD)\nALTER QMGR DEADQ(DEAD)").ok
        connection = LocalConnection(manager.session(), manager)
        queue = connection.call(ask.Open("Q1", BOTH_WAYS)).handle
        for number in range(8):
            put(connection, queue, b"%d" % number, descriptor=PERSISTENT)
        connection.close()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.connection.held_load", str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline()
    process.kill()
    assert (said, process.communicate()[1]) == ("ready\n", "")
    with QueueManager("QM1", folder) as manager, manager.session() as session:
        left = [(message.body, message.backout_count) for message in session.browse("Q1")]
        # 0 was taken, 1 returned, 2 backed out, 3 dead-lettered, 4 set aside, 5 held, and 6 and 7
        # never got.
        assert left == [(b"1", 0), (b"2", 1), (b"5", 1), (b"6", 0), (b"7", 0)]
        assert manager.curdepth("DEAD") == 2
        assert manager.verify().ok
