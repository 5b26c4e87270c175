"""The sample programs of examples/pymqi run as they are, with a server that they find by name.

With channels and tables they run in tests/client/test_samples.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from tests.cli.conftest import run_here
from tests.cli.test_processes import serving
from tests.facts import wait_until
from tests.pymqi.samples import BY_NAME, SAID, SAMPLES, queues, run

#: A message of a sample lives for 100 ms: a scan in between would send its report too early.
NO_SCAN = ("--expiry-interval", "0")


def test_every_sample_is_short_and_known_here() -> None:
    samples = sorted(path.name for path in SAMPLES.glob("*.py"))
    assert samples == sorted(SAID)
    for name in samples:
        text = (SAMPLES / name).read_text("utf-8")
        assert len(text.splitlines()) < 40, name
        assert "import pymqi\nfrom pymqi import CMQC\n" in text
        assert "mayfly" not in text


@pytest.fixture(scope="module")
def airport(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of AIRPORT, which a server has open."""
    home = tmp_path_factory.mktemp("airport")
    with QueueManager("AIRPORT", home / "AIRPORT") as manager:
        result = manager.mqsc((SAMPLES / "airport.mqsc").read_text("utf-8"))
        assert result.ok, result.text
    with serving(home, "AIRPORT", *NO_SCAN):
        yield home


def clear(home: Path) -> None:
    """Empty the queues of the samples; one that has just ended may have them open for a moment."""
    commands = [word for queue in queues() for word in ("-c", f"CLEAR QLOCAL({queue})")]
    wait_until(lambda: run_here(home, "mqsc", "AIRPORT", *commands).exit_code == 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_sample(name: str, airport: Path) -> None:
    clear(airport)
    assert run(name, airport) == SAID[name]
