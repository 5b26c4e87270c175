"""Gets by ids do what the model says when each search notes where the next one may begin."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from mayfly.engine.finding import search
from tests.examples import examples
from tests.model.machine import QueueMachine


@pytest.fixture(autouse=True)
def _quiet_log() -> Iterator[None]:
    """Refused deliveries are part of the game and logged a thousand times."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
def test_a_search_that_begins_behind_hidden_messages_misses_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "MANY_HIDDEN", 0)
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(
            max_examples=examples(200),
            stateful_step_count=40,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
