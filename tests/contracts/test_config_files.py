"""Places that a person names: paths of this machine, and URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

import mayfly
from mayfly.everyplace import EveryplaceError, EveryplaceQueueManager
from mayfly.pipeline.errors import LakeError, ReplayError
from mayfly.pipeline.lake.files import local_folder
from mayfly.pipeline.replay.trace import read_trace
from mayfly.verbs.contracts.access import TokenMissing, read_token
from mayfly.verbs.contracts.config_files import (
    ConfigurationError,
    local_path,
    read_tables,
    scheme_of,
)

BUCKET = "s3a://bucket/lake"


@pytest.mark.parametrize(
    ("place", "scheme"),
    [
        ("/lakes/a", ""),
        ("lake", ""),
        ("a/b://c", ""),
        ("C:/lakes", ""),
        ("lake:1", ""),
        ("./s3a://x", ""),
        (BUCKET, "s3a"),
        (Path(BUCKET), "s3a"),
        ("ABFSS://c@h/x", "abfss"),
        ("file:/lakes", "file"),
        ("mq://host:1414", "mq"),
    ],
)
def test_a_scheme_is_known_whether_a_slash_was_eaten_or_not(place: str | Path, scheme: str) -> None:
    assert scheme_of(place) == scheme


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("lake", "lake"),
        ("./s3a:/x", "s3a:/x"),
        ("/a/b://c", "/a/b:/c"),
        ("file:///lakes/a", "/lakes/a"),
        ("file:/lakes/a", "/lakes/a"),
        ("file://localhost/lakes/a", "/lakes/a"),
    ],
)
def test_a_file_url_is_a_path_of_this_machine(place: str, path: str) -> None:
    assert local_path(place) == Path(path)


@pytest.mark.parametrize("place", [BUCKET, Path(BUCKET), "hdfs://h/x", "s3a:/x", "grpc://h:1"])
def test_a_url_of_elsewhere_is_refused_by_its_scheme(place: str | Path) -> None:
    with pytest.raises(ValueError, match=f"{scheme_of(place)}: is not supported here"):
        local_path(place)


def test_a_file_of_another_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="of another machine"):
        local_path("file://elsewhere/lakes")


def test_a_key_of_a_toml_file_that_means_a_path_refuses_a_url(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(f'lake = "{BUCKET}"\nmqsc = ["a.mqsc", "{BUCKET}"]\nhere = "file:///a/../b"\n')
    table = read_tables(file)
    assert table.local_place("here") == Path("/b")
    with pytest.raises(ConfigurationError, match=r"line 1: lake: .*s3a: is not supported"):
        table.local_place("lake")
    with pytest.raises(ConfigurationError, match=r"line 2: mqsc: .*s3a: is not supported"):
        table.places("mqsc")


def test_the_python_api_refuses_a_url_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (BUCKET, Path(BUCKET)):
        with pytest.raises(ValueError, match="s3a: is not supported"):
            mayfly.QueueManager("QM1", given)
        with pytest.raises(ValueError, match="s3a: is not supported"):
            mayfly.QueueSharingGroup("G1", given)
        with pytest.raises(EveryplaceError, match="s3a: is not supported"):
            EveryplaceQueueManager("A", folder=given)
        with pytest.raises(LakeError, match="s3a: is not supported"):
            local_folder(given)
        with pytest.raises(ReplayError, match="s3a: is not supported"):
            read_trace(given)
        with pytest.raises(TokenMissing, match="s3a: is not supported"):
            read_token(given)
    monkeypatch.setenv("MAYFLY_HOME", BUCKET)
    with pytest.raises(ValueError, match="s3a: is not supported"):
        mayfly.QueueManager.open("QM1")
    assert list(tmp_path.iterdir()) == []
