"""A machine that has no thread left: a start that fails leaves nothing, and nothing is lost later.

Each program runs in a process of its own, whose address space is made so small that threads, each
with a large stack, run out.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: ``room_for(count)`` leaves room for so many threads more.
_HEAD = """
import logging
import resource
import threading

from mayfly import QueueManager, jms
from mayfly.listener import ListenerPort

STACK_BYTES = 256 * 2**20
logging.disable(logging.CRITICAL)


def room_for(count):
    pages = int(open("/proc/self/statm").read().split()[0])
    threading.stack_size(STACK_BYTES)
    used = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + count * STACK_BYTES + STACK_BYTES // 2, -1))


manager = QueueManager("QM1")
assert manager.mqsc("DEFINE QLOCAL(Q1)").ok
gate = threading.Event()


def port_of(timeout, **properties):
    return ListenerPort(
        manager,
        destination="Q1",
        on_message=lambda _message: gate.wait(),
        max_sessions=8,
        properties={"NON.ASF.RECEIVE.TIMEOUT": timeout} | properties,
    )


def put(count):
    with manager.session() as session:
        for _ in range(count):
            session.put("Q1", b"x")
"""
_START = """
room_for(4)
port = port_of(1_000)
try:
    port.start()
except jms.JMSException as error:
    print(error.reason)
threads = [one.name for one in threading.enumerate() if one.name == "mayfly-listener"]
put(1)
now = port.statistics()
print(port.is_running, threads, now.threads, now.connections, manager.counts("Q1").live)
manager.close()
"""
_LATER = """
room_for(4)
port = port_of(0, **{"MAX.RECOVERY.RETRIES": 0})
port.start()
put(8)
while port.is_running:
    pass
gate.set()
port.stop()
counts, now = manager.counts("Q1"), port.statistics()
print(now.threads, now.connections, counts.locked, counts.live + now.committed)
manager.close()
"""


def run(program: str) -> list[str]:
    """Return what a program prints; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", _HEAD + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the address space is limited as Linux does")
def test_a_start_without_threads_for_all_sessions_leaves_nothing_open() -> None:
    assert run(_START) == ["2102", "False [] 0 0 1"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the address space is limited as Linux does")
def test_ASF_a_message_for_whom_there_is_no_thread_is_on_its_queue_again() -> None:
    assert run(_LATER) == ["0 0 0 8"]
