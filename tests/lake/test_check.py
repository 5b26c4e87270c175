"""What check_lake proves of any prefix, and which position it names first."""

from __future__ import annotations

from pathlib import Path

from mayfly.lifetime.life import State
from mayfly.pipeline.lake.check import LakeProblem, check_lake
from tests.bulk.books import life
from tests.spark.lakes import INSTANCE, Entry, balance, write_lake

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
