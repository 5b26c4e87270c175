"""The queue manager does what the model says, whatever programs, operators and time do (T9)."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import QueueMachine

CHECKS = list(HealthCheck)


@pytest.mark.slow
def test_memory() -> None:
    run_state_machine_as_test(
        QueueMachine,
        settings=settings(
            max_examples=200,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=CHECKS,
            print_blob=True,
        ),
    )
