"""What is found wrong with a pipeline before Spark is there, against real servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.pipeline.check import ConfigProblem, check
from mayfly.pipeline.config import load
from mayfly.servers.flight import FlightServer
from tests.bulk.books import TOKEN
from tests.spec.scene import alias, local

TEXT = """
name = "calls"
checkpoint = "cp"
[[source]]
kind = "queue"
url = "{url}"
token_file = "token"
manager = "A"
queue = "IN"
consumer = "calls"
[[source]]
kind = "files"
format = "json"
path = "in"
schema = "n bigint"
columns = {{ queue = "'X'", payload = "cast(n as binary)" }}
[[sink]]
name = "orders"
kind = "queue"
url = "{url}"
token_file = "token"
manager = "B"
queue = "OUT"
dead_letter_queue = "REFUSED"
"""


@pytest.fixture
def text(tmp_path: Path) -> Iterator[str]:
    """The text of a pipeline in which nothing is wrong."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "in").mkdir()
    with (
        QueueManager("A", tmp_path / "A") as a,
        QueueManager("B", tmp_path / "B") as b,
        FlightServer([a, b], port=0, token=TOKEN) as server,
    ):
        local(a, "IN")
        local(b, "REFUSED")
        alias(b, "OUT", local(b, "BEHIND"))
        yield TEXT.format(url=server.url)


def problems(folder: Path, text: str) -> list[ConfigProblem]:
    (folder / "pipeline.toml").write_text(text)
    return check(load(folder / "pipeline.toml"), None)


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, text) == []


@pytest.mark.parametrize(
    ("change", "where", "said"),
    [
        (
            ('queue = "IN"', 'queue = "INN"'),
            "[[source]] 1, queue",
            "'INN': MQRC_UNKNOWN_OBJECT_NAME",
        ),
        (
            ('queue = "OUT"', 'queue = "UOT"'),
            "[[sink]] 1, queue",
            "'UOT': MQRC_UNKNOWN_OBJECT_NAME",
        ),
        (
            ('"REFUSED"', '"NONE"'),
            "[[sink]] 1, dead_letter_queue",
            "'NONE': MQRC_UNKNOWN_OBJECT_NAME",
        ),
        (('manager = "B"', 'manager = "C"'), "[[sink]] 1", "no queue manager 'C'"),
        (('path = "in"', 'path = "inn"'), "[[source]] 2, path", "inn is no folder"),
    ],
)
def test_what_is_not_there_is_named(
    tmp_path: Path, text: str, change: tuple[str, str], where: str, said: str
) -> None:
    [problem] = problems(tmp_path, text.replace(*change))
    assert (problem.where, problem.is_warning) == (where, False)
    assert said in problem.text


def test_a_token_that_is_wrong_or_missing_is_named_and_never_shown(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "wrong").write_text("secret")
    [wrong] = problems(tmp_path, text.replace('"token"', '"wrong"', 1))
    assert wrong.where == "[[source]] 1"
    assert "token" in wrong.text
    assert "secret" not in wrong.text
    [missing] = problems(tmp_path, text.replace('"token"', '"none"', 1))
    assert missing.text == f"token file {tmp_path}/none cannot be read: No such file or directory"


def test_a_server_that_does_not_answer_is_named(tmp_path: Path, text: str) -> None:
    url = text.split('url = "')[1].split('"')[0]
    found = problems(tmp_path, text.replace(f'url = "{url}"', 'url = "grpc://127.0.0.1:1"', 1))
    assert [problem.where for problem in found] == ["[[source]] 1"]
    assert "grpc://127.0.0.1:1" in found[0].text


def test_a_queue_that_is_read_and_written_is_a_warning(tmp_path: Path, text: str) -> None:
    round_about = text.replace('manager = "B"', 'manager = "A"').replace('"OUT"', '"IN"')
    [loop] = problems(tmp_path, round_about.replace('dead_letter_queue = "REFUSED"', ""))
    assert loop == (
        "[[sink]] 1, queue",
        "'IN' is a source as well: what is put there is read again",
        True,
    )


def test_a_checkpoint_of_somebody_else_is_named(tmp_path: Path, text: str) -> None:
    mark = tmp_path / "cp" / "_mayfly_pipeline.json"
    mark.parent.mkdir()
    mark.write_text("{")
    [damaged] = problems(tmp_path, text)
    assert damaged.where == "checkpoint"
    assert damaged.text.startswith(f"_mayfly_pipeline.json in checkpoint {tmp_path}/cp is damaged")
    mark.write_text('{"id": "1", "sources": [{"kind": "kafka", "topic": "t"}]}')
    [other] = problems(tmp_path, text)
    assert "is of 1 sources, the pipeline has 2: use a new checkpoint" in other.text
