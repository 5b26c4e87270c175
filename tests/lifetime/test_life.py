"""The life table: complete, finite, and pictured in docs/LIFETIME.md as it stands."""

import re
from pathlib import Path

import pytest

from mayfly.lifetime.life import (
    LEDGER_COLUMNS,
    NEXT,
    OUTCOMES,
    Balance,
    Event,
    LifeRecord,
    State,
    picture,
)

TESTS = Path(__file__).parents[1]
DOCUMENT = TESTS.parent / "docs" / "LIFETIME.md"


def test_every_state_is_an_outcome_or_leads_on_and_withdrawn_leaves_no_record() -> None:
    ends = set(State) - NEXT.keys()
    assert ends == {*OUTCOMES, State.WITHDRAWN}
    assert len(OUTCOMES) == len(set(OUTCOMES))
    reached = {state for following in NEXT.values() for state in following.values()}
    assert reached >= ends


def test_every_event_can_happen() -> None:
    assert {event for following in NEXT.values() for event in following} == set(Event)


def test_E15_E17_nothing_expires_in_a_unit_of_work() -> None:
    for state in (State.UNCOMMITTED, State.LOCKED):
        assert State.EXPIRED not in NEXT[state].values()


def test_ledger_columns_hold_a_life_and_a_balance() -> None:
    assert LEDGER_COLUMNS[:2] == ("position", "kind")
    assert set(LifeRecord._fields) < set(LEDGER_COLUMNS)
    assert {"puts", "present", "ended"} < set(LEDGER_COLUMNS)
    assert len(LEDGER_COLUMNS) == len(set(LEDGER_COLUMNS))


@pytest.mark.parametrize(("present", "balanced"), [(2, True), (1, False), (3, False)])
def test_balance(present: int, balanced: bool) -> None:
    assert Balance("Q1", 0, 5, present, {"got": 1, "expired": 2}).is_balanced() is balanced


def test_picture_of_the_document_is_not_stale() -> None:
    """Replace it by what `mayfly.lifetime.life.picture()` returns."""
    assert picture() in DOCUMENT.read_text("utf-8")


def test_tests_that_the_document_names_exist() -> None:
    sources = "".join(path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    existing = set(re.findall(r"^def (test_\w+)\(", sources, re.MULTILINE))
    named = set(re.findall(r"`(test_\w+)`", DOCUMENT.read_text("utf-8")))
    assert len(named) > 80
    assert named <= existing, named - existing


def test_picture_shows_each_step_once() -> None:
    lines = picture().splitlines()
    steps = [line.strip() for line in lines if " --> " in line]
    assert len(steps) == len(set(steps))
    for state, following in NEXT.items():
        for event, after in following.items():
            named = [s for s in steps if s.startswith(f"{state} --> {after}: ")]
            assert len(named) == 1
            assert str(event).replace("_", " ") in named[0].partition(": ")[2].split(", ")
