"""docs/SERVING.md: its program prints what stands below it, its file is right, its states exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from mayfly.cli.ping import ProbeResult
from mayfly.servers.settings import read_settings
from mayfly.servers.status import ServingState
from tests.pages import part

DOCS = part("SERVING.md", "The server")


@pytest.mark.slow
def test_the_program_in_the_documentation_prints_what_it_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    [(program, said)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)
    exec(compile(program, "SERVING.md", "exec"), {})
    assert capsys.readouterr().out == said


def test_the_file_in_the_documentation_is_right_and_has_every_key(tmp_path: Path) -> None:
    [text] = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)
    (tmp_path / "config.toml").write_text(text)
    for name in ("chain.pem", "key.pem", "clients.pem"):
        (tmp_path / name).touch()
    settings = read_settings(tmp_path / "config.toml")
    given = tomllib.loads(text)
    # One key for queue_managers, none for development, which no file can say; the channels are keys
    # of listen.
    channels = ["amqp_channel", "http_channel", "http_admin_channel"]
    assert len(given) == len(settings) - 1 - len(channels)
    assert list(given["limits"]) == list(settings.limits._fields)
    assert list(given["tls"]) == list(settings.tls._fields)
    assert list(given["listen"]) == [*settings.listen._fields, *channels]
    assert [getattr(settings, key) for key in channels] == ["APPS", "APPS", "OPS"]


def test_every_state_stands_in_the_documentation_as_it_is() -> None:
    rows = re.findall(r"^\| `([\w ]+)` \| (yes|no) \| (yes|no) \|", DOCS, re.MULTILINE)
    assert len(rows) == len(ServingState)
    for state, live, ready in rows:
        health = ProbeResult(ServingState(state))
        assert (health.is_live, health.is_ready) == (live == "yes", ready == "yes"), state
