"""The sample programs of examples/pymqi run as they are, each on queue managers of its own."""

from __future__ import annotations

import os
import subprocess
import sys
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


@pytest.mark.slow
@pytest.mark.parametrize("name", SAID)
def test_sample(name: str, tmp_path: Path) -> None:
    for script in SCRIPTS.get(name, ("airport",)):
        with QueueManager(script.upper(), tmp_path / script.upper()) as manager:
            result = manager.mqsc((SAMPLES / f"{script}.mqsc").read_text("utf-8"))
            assert result.ok, result.text
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-m", "mayfly.pymqi", str(SAMPLES / name)],
        env={**os.environ, "MAYFLY_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines() == SAID[name]
