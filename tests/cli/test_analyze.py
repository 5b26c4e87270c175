"""``mayfly ledger analyze``: tables with advice, JSON, a page, and what is refused."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from mayfly.cli.outcomes import ExitCode
from mayfly.lifetime.life import LifeRecord, State
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.bulk.schema import ledger_batch
from mayfly.pipeline.lake.delta import DeltaLake
from tests.bulk.books import START_MS, life
from tests.cli.conftest import Invoke
from tests.pages import part
from tests.spark.lakes import INSTANCE, numbered, write_lake

MINUTE_MS = 60_000


def orders(number: int) -> LifeRecord:
    """An order that lives for 30 s: two of three are got in time, the third one is met expired."""
    put_ms = START_MS + number * 10_000
    is_late = number % 3 == 2
    return life(
        number,
        "ORDERS.EU",
        State.EXPIRED if is_late else State.GOT,
        put_ms=put_ms,
        deliver_at_ms=put_ms,
        expire_at_ms=put_ms + 30_000,
        ended_ms=put_ms + (39_000 if is_late else 28_000),
        detected_by="get" if is_late else None,
        ended_by="anna",
        ended_program="till",
    )


def invoice(number: int) -> LifeRecord:
    """An invoice that lives for a day, and is got two seconds after its delay of a minute."""
    put_ms = START_MS + number * 10_000
    return life(
        number,
        "INVOICES",
        put_ms=put_ms,
        deliver_at_ms=put_ms + MINUTE_MS,
        expire_at_ms=put_ms + 24 * 60 * MINUTE_MS,
        ended_ms=put_ms + MINUTE_MS + 2_000,
        ended_by="ben",
        ended_program="desk",
    )


def staged(number: int) -> LifeRecord:
    """The same invoice on the staging queue, released 5 ms late."""
    target = invoice(number)
    return target._replace(
        queue=STAGING_QUEUE, outcome=State.RELEASED.value, ended_ms=target.deliver_at_ms + 5
    )


def lives() -> list[LifeRecord]:
    """Ninety orders and forty invoices."""
    return [
        *map(orders, range(90)),
        *(record for n in range(100, 140) for record in (staged(n), invoice(n))),
    ]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake of Parquet files."""
    write_lake(tmp_path / "lake", lives())
    return tmp_path / "lake"


@pytest.fixture
def delta_lake(tmp_path: Path) -> Path:
    """The same lives in Delta tables."""
    folder = tmp_path / "delta"
    rows = pa.Table.from_batches([ledger_batch(numbered(lives()), "QM1", INSTANCE)])
    with closing(DeltaLake(folder, INSTANCE)) as opened:
        opened.add(rows, rows.num_rows)
    return folder


def test_the_documented_commands_print_what_is_shown(
    mayfly: Invoke, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lake.parent)
    text = part("LAKE.md", "Are the lifetimes right?")
    _overview, *blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    steps = [
        step
        for block in blocks
        for step in re.findall(r"^\$ mayfly (.*)\n((?:[^$].*\n|\n)*)", block, re.MULTILINE)
    ]
    assert len(steps) == 2
    for command, output in steps:
        answer = mayfly(*shlex.split(command))
        assert (answer.exit_code, answer.stdout) == (0, output), command


def test_the_documented_program_prints_the_advice(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(lake.parent)
    text = part("LAKE.md", "Are the lifetimes right?")
    [program] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    exec(program, {})
    assert capsys.readouterr().out.startswith("tester too short 23.1 % of 130 expire; half")


def test_both_formats_have_the_same_answer_for_programs(
    mayfly: Invoke, lake: Path, delta_lake: Path
) -> None:
    words = ("ledger", "analyze", "--cap", "20s", "--json")
    parquet, delta = (mayfly(*words, str(place)) for place in (lake, delta_lake))
    assert (parquet.exit_code, parquet.stderr) == (0, "")
    found = json.loads(parquet.stdout)
    assert json.loads(delta.stdout) == found
    assert found["by"] == "queue"
    invoices, eu = found["lifetimes"]
    assert (eu["name"], eu["expired_share"], eu["verdict"]) == ("ORDERS.EU", 1 / 3, "too short")
    assert (eu["suggested_ms"], eu["would_be_got"], eu["not_known"]) == (43_000, 30, 0)
    assert eu["cap"]["got_lost"] == 60
    assert eu["cap"]["freed_ms"] == 30 * 10_000
    assert eu["cap"]["advice"].startswith("With a cap of 20 s: 60 that were got would have expired")
    assert (invoices["verdict"], invoices["suggested_ms"]) == ("too long", 69_000)
    assert invoices["cap"]["refused"] == 40
    queue, staging = found["delays"]
    assert (queue["queue"], queue["late_p50_ms"]) == ("INVOICES", 2_000)
    assert (staging["queue"], staging["late_max_ms"]) == (STAGING_QUEUE, 5)
    desk, till = found["consumers"]
    assert (desk["application"], desk["met_expired"], desk["advice"]) == ("desk", 0, None)
    assert (till["application"], till["user_id"], till["met_expired"]) == ("till", "anna", 30)


def test_a_cap_is_a_capexpry(mayfly: Invoke, lake: Path) -> None:
    for text in ("0s", "150ms", "5"):
        answer = mayfly("ledger", "analyze", str(lake), "--cap", text)
        assert answer.exit_code == ExitCode.USAGE
        assert "--cap" in answer.stderr
        assert text in answer.stderr
    answer = mayfly("ledger", "analyze", str(lake), "--cap", "100ms", "--json")
    assert json.loads(answer.stdout)["lifetimes"][0]["cap"]["cap_ms"] == 100


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--by", "week"], "'week' is not one of 'queue', 'date', 'hour'"),
        (["--from", "yesterday"], "'yesterday' is not a moment"),
        (["--queue", "A'B"], "is not the name of a queue"),
        (["--plot", "a.png"], "a.png does not end in .html"),
        (["--late-after", "soon"], "'soon' is not a duration"),
    ],
)
def test_wrong_words_are_told_and_nothing_is_written(
    mayfly: Invoke, lake: Path, words: list[str], said: str
) -> None:
    before = sorted(lake.parent.iterdir())
    answer = mayfly("ledger", "analyze", str(lake), *words)
    assert answer.exit_code == ExitCode.USAGE
    assert said in " ".join(answer.stderr.split())
    assert sorted(lake.parent.iterdir()) == before


def test_a_lake_without_such_lives_ends_with_nothing(mayfly: Invoke, lake: Path) -> None:
    answer = mayfly("ledger", "analyze", str(lake), "--queue", "NONE")
    assert (answer.exit_code, answer.stdout) == (ExitCode.NOTHING, "")
    assert answer.stderr == f"mayfly: no lives in {lake}\n"
    answer = mayfly("ledger", "analyze", "/nowhere")
    assert answer.exit_code == ExitCode.PIPELINE
    assert answer.stderr == "mayfly: there is no lake at /nowhere\n"


def test_queue_managers_are_named_where_a_lake_has_several(mayfly: Invoke, lake: Path) -> None:
    rows = pa.Table.from_batches([ledger_batch(numbered([orders(1)]), "QM2", "6" * 32)])
    pa.parquet.write_table(rows, lake / "date=2023-11-14" / "batch-other-1.parquet")
    answer = mayfly("ledger", "analyze", str(lake), "--queue", "ORDERS.EU")
    assert [line.split()[:3] for line in answer.stdout.splitlines()[1:3]] == [
        ["QM1", "ORDERS.EU", "90"],
        ["QM2", "ORDERS.EU", "1"],
    ]


@pytest.mark.parametrize("by", ["queue", "hour-of-day"])
def test_a_page_shows_what_expired_beside_the_gets(mayfly: Invoke, lake: Path, by: str) -> None:
    page = lake.parent / "lifetimes.html"
    answer = mayfly("ledger", "analyze", str(lake), "--by", by, "--plot", str(page))
    assert answer.exit_code == 0, answer.output
    text = page.read_text("utf-8")
    for said in (
        "130 lives, 23.1 % expired",
        f"Expired, by {by}: lives",
        "would be got with the suggested lifetime",
        "99.9 % of the gets within",
    ):
        assert said in text
