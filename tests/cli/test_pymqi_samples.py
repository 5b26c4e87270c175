"""The sample programs of examples/pymqi run as they are, each on queue managers of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mayfly import QueueManager

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "examples" / "pymqi"
SAID = {
    "browse_and_lock.py": [
        "left:  LH400 suitcase",
        "taken: OS87 skis",
        "left:  LH400 pram",
        "2 on the belt",
    ],
    "dead_letters.py": ["BAGGAGE.LATER OS87 skis True True"],
    "expiry_report.py": [
        "report: FAILED: MQRC_NO_MSG_AVAILABLE",
        "message: FAILED: MQRC_NO_MSG_AVAILABLE",
        "report: LH400 boards at gate A1",
        "True True",
    ],
    "forward.py": [
        "LH400 boards at gate A1",
        "carla True",
        "the same moment of the put: True",
    ],
    "groups.py": [
        "after 1 of 3: FAILED: MQRC_NO_MSG_AVAILABLE",
        "after 2 of 3: FAILED: MQRC_NO_MSG_AVAILABLE",
        "after 3 of 3: (1, 'suitcase')",
        "[(2, 'skis'), (3, 'pram')]",
    ],
    "properties.py": ["a red bag 23 kg", "FAILED: MQRC_NO_MSG_AVAILABLE", "2 left"],
    "request_reply.py": ["LH400: gate A1 - in time: True"],
    "subscriber.py": [
        "LH400 boards - for a minute",
        "OS87 boards - for ever",
        "FAILED: MQRC_NO_MSG_AVAILABLE",
    ],
    "trigger_monitor.py": [
        "print_tags for TAGS -1",
        "tag: LH400 pram in black and white",
        "tag: OS87 skis in black and white",
        "FAILED: MQRC_NO_MSG_AVAILABLE",
    ],
    "two_managers.py": [
        "put to TRANSFERS.IN of HUB",
        "OS87 skis, from A1 to B7",
        "the same message: True - what is left: True",
        "LH400 pram",
    ],
    "two_readers.py": [
        "reader 0 sees suitcase",
        "reader 1 sees skis",
        "reader 0 sees pram",
        "reader 0 takes suitcase",
        "reader 1 takes skis",
        "reader 0 takes pram",
        "0 left",
    ],
}
#: The scripts that make what a sample needs, one a queue manager.
SCRIPTS = {"two_managers.py": ("hub", "spoke")}


def test_every_sample_is_short_and_known_here() -> None:
    samples = sorted(path.name for path in SAMPLES.glob("*.py"))
    assert samples == sorted(SAID)
    for name in samples:
        text = (SAMPLES / name).read_text("utf-8")
        assert len(text.splitlines()) < 40, name
        assert "import pymqi\nfrom pymqi import CMQC\n" in text
        assert "mayfly" not in text


#: The programs that name a channel, and the ports of their servers.
BY_CHANNEL = {"request_reply.py": [1414], "subscriber.py": [1414], "two_managers.py": [1414, 1415]}


def define(name: str, home: Path) -> list[str]:
    """Make what a sample needs; return the names of its queue managers."""
    names = []
    for script in SCRIPTS.get(name, ("airport",)):
        names.append(script.upper())
        with QueueManager(script.upper(), home / script.upper()) as manager:
            result = manager.mqsc((SAMPLES / f"{script}.mqsc").read_text("utf-8"))
            assert result.ok, result.text
    return names


def run(name: str, home: Path, **environment: str) -> list[str]:
    """Run a sample; return what it has said."""
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-m", "mayfly.pymqi", str(SAMPLES / name)],
        env={**os.environ, "MAYFLY_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SAID if name not in BY_CHANNEL])
def test_sample(name: str, tmp_path: Path) -> None:
    define(name, tmp_path)
    assert run(name, tmp_path) == SAID[name]


@contextmanager
def served(names: list[str], home: Path) -> Iterator[int]:
    """Serve queue managers in another process; yields the port."""
    command = [sys.executable, "-m", "tests.pymqi.samples_server", *names, "0"]
    environment = {**os.environ, "MAYFLY_HOME": str(home)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        ready, port = server.stdout.readline().split()
        assert ready == "ready"
        yield int(port)
        server.stdin.close()
        assert server.wait() == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SAID if name not in BY_CHANNEL])
def test_sample_as_a_client_of_mqserver(name: str, tmp_path: Path) -> None:
    home = tmp_path / "elsewhere"
    with served(define(name, tmp_path), tmp_path) as port:
        server = f"APP.SVRCONN/TCP/127.0.0.1({port})"
        assert run(name, home, MQSERVER=server) == SAID[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_CHANNEL)
def test_sample_that_names_a_channel_at_the_address_of_its_server(
    name: str, tmp_path: Path
) -> None:
    """In a network namespace of its own, where nobody else has the ports."""
    ports = [str(port) for port in BY_CHANNEL[name]]
    names = define(name, tmp_path)
    script = f"""
        ip link set lo up || exit 77
        mkfifo go ready
        MAYFLY_HOME={tmp_path} {sys.executable} -m tests.pymqi.samples_server {" ".join(names)} \
            {" ".join(ports)} < {tmp_path}/go > {tmp_path}/ready &
        exec 3> {tmp_path}/go
        read -r said < {tmp_path}/ready
        MAYFLY_HOME={tmp_path}/elsewhere {sys.executable} -W error -m mayfly.pymqi {SAMPLES / name}
        code=$?
        exec 3>&-
        wait
        exit $code
    """.replace("mkfifo go ready", f"mkfifo {tmp_path}/go {tmp_path}/ready")
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("unshare makes the network namespace")
    answer = subprocess.run(
        [unshare, "-Urn", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if answer.returncode == 77 or "unshare" in answer.stderr:
        pytest.skip("this machine makes no network namespace for its users")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines() == SAID[name]
