"""The accounts of test_faults.py notice what must not be."""

import json
from pathlib import Path

import pytest

from tests.replica.accounts import (
    OK,
    REFUSED,
    UNKNOWN,
    Accounts,
    Got,
    Ownership,
    Put,
    Unit,
    acknowledged_by_others,
    units_in,
)

PLAIN, DELAYED = Put("a", 0, 0, asks=False), Put("a", 5_000, 0, asks=False)
OTHER = Put("b", 0, 0, asks=False)
EXPIRING, SILENT = Put("a", 0, 1_000, asks=True), Put("a", 0, 1_000, asks=False)


def put(*puts: Put, outcome: str = OK) -> Unit:
    """A unit of work of puts between the moments 100 and 200, and its end at 300."""
    return Unit(puts=list(puts), first_ms=100, last_ms=200, outcome=outcome, at_ms=300)


def get(name: str = "a", began_ms: int = 400, outcome: str = OK) -> Unit:
    return Unit(gets=[Got(name, began_ms, began_ms + 10)], outcome=outcome, at_ms=500)


@pytest.mark.parametrize(
    ("units", "reports"),
    [
        ([put(PLAIN), get()], []),
        ([put(PLAIN, outcome=UNKNOWN)], []),
        # A unit of work that has not taken effect has seen its own put.
        ([put(PLAIN), Unit(puts=[OTHER], gets=[*get().gets, *get("b").gets]), get()], []),
        ([put(PLAIN, outcome=UNKNOWN), get()], []),
        ([put(PLAIN, outcome=REFUSED)], []),
        ([put(PLAIN), get(outcome=UNKNOWN)], []),
        ([put(PLAIN), get(outcome=UNKNOWN), get()], []),
        ([put(PLAIN), get(outcome=REFUSED), get()], []),
        ([put(DELAYED), get(began_ms=5_100)], []),
        ([put(EXPIRING)], ["a"]),
        ([put(SILENT)], []),
    ],
)
def test_what_may_be_is_no_problem(units: list[Unit], reports: list[str]) -> None:
    assert Accounts(units, reports).problems() == []


@pytest.mark.parametrize(
    ("units", "reports", "says"),
    [
        ([put(PLAIN)], [], "is lost"),
        ([put(EXPIRING)], [], "is lost"),
        ([put(PLAIN), get(), get()], [], "was got 2 times"),
        ([put(EXPIRING), get()], ["a"], "was got and reported"),
        ([put(EXPIRING)], ["a", "a"], "has 2 reports"),
        ([put(SILENT)], ["a"], "has 1 reports"),
        ([put(PLAIN, outcome=REFUSED), get()], [], "its put was refused"),
        ([get()], [], "was never put"),
        ([put(DELAYED), get(began_ms=4_000)], [], "was early by 1090 ms"),
        ([put(EXPIRING, OTHER), get("b"), get(began_ms=1_300)], [], "late"),
        ([put(PLAIN, OTHER, outcome=UNKNOWN), get()], [], "in part"),
    ],
)
def test_what_must_not_be_is_found(units: list[Unit], reports: list[str], says: str) -> None:
    [problem] = Accounts(units, reports).problems()
    assert says in problem


def test_a_put_that_another_than_the_owner_acknowledges_is_found() -> None:
    unit = put(PLAIN)
    unit.server = "one"
    one, two = Ownership("one", 0), Ownership("two", 250)
    assert acknowledged_by_others([unit], [one, two]) == []
    [problem] = acknowledged_by_others([unit], [one, Ownership("two", 90)])
    assert problem.startswith("one acknowledged")


def test_a_journal_whose_last_line_is_half_has_a_unit_that_is_unknown(tmp_path: Path) -> None:
    begun = json.dumps({"unit": 0, **put(PLAIN).stored()})
    (tmp_path / "native").write_text(begun + '\n{"unit": 0, "outc')
    [unit] = units_in(tmp_path)
    assert (unit.puts, unit.outcome) == ([PLAIN], UNKNOWN)
