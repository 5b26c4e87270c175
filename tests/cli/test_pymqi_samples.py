"""The sample programs of examples/pymqi run as they are, each with a server that it finds by name.

With channels and tables they run in tests/client/test_samples.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from tests.cli.test_processes import serving
from tests.pymqi.samples import BY_NAME, SAID, SAMPLES, run


def test_every_sample_is_short_and_known_here() -> None:
    samples = sorted(path.name for path in SAMPLES.glob("*.py"))
    assert samples == sorted(SAID)
    for name in samples:
        text = (SAMPLES / name).read_text("utf-8")
        assert len(text.splitlines()) < 40, name
        assert "import pymqi\nfrom pymqi import CMQC\n" in text
        assert "mayfly" not in text


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_sample(name: str, tmp_path: Path) -> None:
    with QueueManager("AIRPORT", tmp_path / "AIRPORT") as manager:
        result = manager.mqsc((SAMPLES / "airport.mqsc").read_text("utf-8"))
        assert result.ok, result.text
    with serving(tmp_path, "AIRPORT"):
        assert run(name, tmp_path) == SAID[name]
