"""The wheels of ``make wheel``, each installed into a virtual environment of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from trove_classifiers import classifiers

import mayfly
from tests.readme import ROOT, first_program, install_script

CONSTRAINTS = ROOT / "constraints.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
#: A compiled wheel takes a C compiler minutes.
BUILD_SECONDS = 1_800


def run(*words: str | Path, cwd: Path) -> str:
    """Run a program outside of the source, and return its output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**environment, "MAYFLY_HOME": str(cwd)},
        capture_output=True,
        text=True,
        check=False,
        timeout=BUILD_SECONDS,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that git knows, without anything that was built beside them."""
    folder = tmp_path_factory.mktemp("checkout")
    known = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if known.returncode:
        pytest.skip("this is no checkout")
    for name in filter(None, known.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


@pytest.fixture(scope="module")
def wheels(checkout: Path) -> dict[str, Path]:
    """The wheels by their build: ``pure Python``, and ``compiled`` where there is a C compiler."""
    # With the packages of this Python in the place of .venv.
    run("make", "wheel", "READY=", f"BIN={Path(sys.executable).parent}", cwd=checkout)
    found = {
        "pure Python" if path.name.endswith("-py3-none-any.whl") else "compiled": path
        for path in (checkout / "dist").iterdir()
    }
    assert len(found) == len(list((checkout / "dist").iterdir()))
    return found


@pytest.mark.soak
@pytest.mark.parametrize("build", ["pure Python", "compiled"])
def test_a_wheel_runs_where_nothing_else_of_mayfly_is(
    build: str, wheels: dict[str, Path], tmp_path: Path
) -> None:
    if build not in wheels:
        pytest.skip("the compiled wheel needs a C compiler")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    run(python, "-m", "pip", "install", "-q", "-c", CONSTRAINTS, wheels[build], cwd=tmp_path)
    program, output = first_program()
    (tmp_path / "first.py").write_text(program)
    assert run(python, "first.py", cwd=tmp_path) == output
    missing = subprocess.run(
        [tmp_path / "venv/bin/mayfly"], capture_output=True, text=True, check=False
    )
    assert (missing.returncode, "pip install 'mayfly-mq[cli]'" in missing.stderr) == (2, True)
    extra = f"{wheels[build]}[serve]"
    run(python, "-m", "pip", "install", "-q", "-c", CONSTRAINTS, extra, cwd=tmp_path)
    command = tmp_path / "venv/bin/mayfly"
    assert run(command, "--version", cwd=tmp_path) == f"mayfly {mayfly.__version__}, {build}\n"
    run(command, "mqsc", "QM1", "-c", "DEFINE QLOCAL(Q1)", cwd=tmp_path)
    run(command, "put", "QM1", "Q1", "hello", "--expiry", "60s", cwd=tmp_path)
    assert run(command, "get", "QM1", "Q1", cwd=tmp_path) == "hello\n"
    told = "import importlib.metadata as m; print(m.version('mayfly-mq'))"
    assert run(python, "-c", told, cwd=tmp_path) == f"{mayfly.__version__}\n"


@pytest.mark.soak
def test_the_readme_installs_from_a_checkout(checkout: Path) -> None:
    said = run("sh", "-ec", install_script(), cwd=checkout).splitlines()[-1]
    assert said == f"mayfly {mayfly.__version__}, pure Python"


def test_the_metadata_name_what_there_is() -> None:
    """Classifiers of PyPI; no address, for there is none; and the version stands in one place."""
    assert set(PROJECT["classifiers"]) <= classifiers
    assert "urls" not in PROJECT
    assert PROJECT["dynamic"] == ["version"]
    written = [
        path.relative_to(ROOT).as_posix()
        for path in [ROOT / "pyproject.toml", *(ROOT / "mayfly").rglob("*.py")]
        if re.search(rf"version.*\b{re.escape(mayfly.__version__)}\b", path.read_text("utf-8"))
    ]
    assert written == ["mayfly/__init__.py"]


def test_the_newest_version_of_the_changelog_is_this_one() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0] == mayfly.__version__


def test_templates_and_workflows_name_no_address() -> None:
    """The project has none yet; and a workflow runs what a fresh clone runs."""
    files = [path for path in (ROOT / ".github").rglob("*") if path.is_file()]
    assert len(files) == 4
    for path in files:
        assert not re.findall(r"https?://|\S@\S+\.\w", path.read_text("utf-8")), path
    yaml = pytest.importorskip("yaml", reason="PyYAML is not here")
    checks = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text("utf-8"))["jobs"]
    assert [job["steps"][-1]["run"] for job in checks.values()] == [
        "bash .ci/run",
        "make test-python PYTHON=python",
    ]
