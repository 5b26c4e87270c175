"""docs/HTTP.md and the clients of the clock in docs/DEVELOPING.md: they run as they are shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mayfly.mqi import reasons as rc
from tests.pages import part
from tests.servers.http.conftest import ADMIN, Web

DOCS = Path(__file__).parents[3] / "docs"
HTTP = (DOCS / "HTTP.md").read_text("utf-8")
DEVELOPING = part("DEVELOPING.md", "Programs for IBM MQ")
CLOCK = "/mayfly/v1/clock"
MAIN = """class Main {
    public static void main(String[] arguments) throws Exception {
        MayflyClock.advance(Duration.ofMillis(Long.parseLong(arguments[0])));
    }
}

class MayflyClock"""


@pytest.mark.slow
def test_the_program_in_the_documentation_prints_what_it_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    monkeypatch.setenv("MAYFLY_ADMIN_PASSWORD", "set by the program")
    [(program, said)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", HTTP, re.DOTALL)
    exec(compile(program, "HTTP.md", "exec"), {})
    assert capsys.readouterr().out == said


def test_reasons_in_the_documentation_are_those_of_the_source() -> None:
    named = re.findall(r"(\d{4}) (MQRC_[A-Z_]+)", HTTP)
    assert len(named) > 5
    assert [name for number, name in named if getattr(rc, name) != int(number)] == []


def shown(language: str) -> str:
    """Return the only block of a language in DEVELOPING.md."""
    [block] = re.findall(rf"```{language}\n(.*?)```", DEVELOPING, re.DOTALL)
    return str(block)


def check(web: Web, folder: Path, *command: str) -> None:
    """Check that a program moves the clock by its argument, and fails with a wrong password."""
    before_ms = web.ask("GET", CLOCK).content["time_ms"]
    environment = {**os.environ, "MAYFLY_HTTP": f"http://127.0.0.1:{web.port}"}
    for password, is_let_in in ((ADMIN[1], True), ("guessed", False)):
        done = subprocess.run(
            [*command, "3600000"],
            cwd=folder,
            env={**environment, "MAYFLY_ADMIN_PASSWORD": password},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode == 0) is is_let_in, done.stderr
        assert ("MQRC_NOT_AUTHORIZED" in done.stderr) is not is_let_in
    assert web.ask("GET", CLOCK).content["time_ms"] == before_ms + 3_600_000


@pytest.mark.soak
def test_a_test_in_java_moves_the_clock(guarded: Web, tmp_path: Path) -> None:
    java = shutil.which("java")
    if java is None or shutil.which("javac") is None:
        pytest.skip("a JDK compiles the program")
    program = shown("java").replace("class MayflyClock", MAIN)
    (tmp_path / "Main.java").write_text(program)
    check(guarded, tmp_path, java, "Main.java")


@pytest.mark.soak
def test_a_test_in_javascript_moves_the_clock(guarded: Web, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js runs the program")
    program = shown("js") + "await advance(Number(process.argv[2]));\n"
    (tmp_path / "clock.mjs").write_text(program)
    check(guarded, tmp_path, node, "clock.mjs")
