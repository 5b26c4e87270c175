"""What check_lake proves of any prefix, and which position it names first."""

from __future__ import annotations

from pathlib import Path

from mayfly.lifetime.life import State
from mayfly.pipeline.lake.answers import ledger_report
from mayfly.pipeline.lake.check import LakeProblem, check_lake
from mayfly.pipeline.lake.compaction import compact_lake
from tests.bulk.books import life
from tests.spark.lakes import INSTANCE, Entry, balance, forget_columns, forget_outcomes, write_lake

STORE = f"store {INSTANCE}"


def test_every_balance_is_compared_and_the_first_that_does_not_add_up_is_named(
    tmp_path: Path,
) -> None:
    """At the end the books agree again: only a look at every balance finds what was wrong."""
    entries: list[Entry] = [
        life(1),
        balance("Q1", 1, got=1),
        life(2, outcome=State.EXPIRED),
        balance("Q1", 2, got=2),
        life(3),
        balance("Q1", 3, got=2, expired=1),
    ]
    write_lake(tmp_path, entries)
    found = check_lake(tmp_path)
    assert (found.rows, found.balances) == (6, 3)
    where = f"queue Q1 of {STORE}"
    assert found.problems == (
        LakeProblem(
            INSTANCE,
            4,
            "Q1",
            f"{where}: 2 lives got by the balances up to position 4, 1 in the lake",
        ),
        LakeProblem(
            INSTANCE,
            4,
            "Q1",
            f"{where}: 0 lives expired by the balances up to position 4, 1 in the lake",
        ),
    )


def test_a_prefix_before_the_problem_is_proved(tmp_path: Path) -> None:
    entries: list[Entry] = [
        life(1),
        balance("Q1", 1, got=1),
        life(2, "Q2"),
        balance("Q2", 4, got=1),
        balance("Q1", 1, got=1),
    ]
    write_lake(tmp_path, entries)
    # A prefix that ends with a life, which no balance counts yet, beside one of whole books.
    found = check_lake(tmp_path, until_position=3)
    assert (found.rows, found.balances, found.texts) == (3, 1, [])
    [problem] = check_lake(tmp_path, until_position=4).problems
    assert (problem.queue, problem.position) == ("Q2", 4)
    assert "4 put, but 1 ended and 0 present at position 4" in problem.text


def test_the_same_is_found_after_compaction(tmp_path: Path) -> None:
    write_lake(tmp_path, [life(1), balance("Q1", 1, got=1)])
    write_lake(tmp_path, [life(2), balance("Q1", 3, got=3)], 3)
    write_lake(tmp_path, [life(3), life(4)], 6)
    before = check_lake(tmp_path)
    assert [problem.position for problem in before.problems] == [5, 4]
    compact_lake(tmp_path)
    assert check_lake(tmp_path) == before


def test_files_of_versions_that_knew_fewer_outcomes_and_more_are_proved(tmp_path: Path) -> None:
    """Today's files have no count of others; an outcome of a later version is counted there."""
    old = write_lake(tmp_path, [life(1), balance("Q1", 1, got=1)])
    forget_outcomes(old, "other", "lost_at_restart")
    forget_columns(old, "capped_by", "detected_by", "ended_by", "ended_program")
    later = life(2)._replace(outcome="unheard_of", ended_by="app")
    write_lake(tmp_path, [later, balance("Q1", 2, got=1, unheard_of=1), life(3)], 3)
    assert check_lake(tmp_path).texts == []
    write_lake(tmp_path, [balance("Q1", 4, got=2, unheard_of=2)], 6)
    [problem] = check_lake(tmp_path).texts
    assert "lives other by the balances up to position 6" in problem
    report = {row.queue: row for row in ledger_report(tmp_path)}
    assert report["Q1"].outcomes["other"] == 1
