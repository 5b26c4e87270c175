"""The queue manager does what the model says, whatever programs, operators and time do."""

import logging
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import rule, run_state_machine_as_test

from mayfly import QueueManager
from tests.examples import examples
from tests.model.machine import QueueMachine


def limits(example_count: int) -> settings:
    return settings(
        max_examples=examples(example_count),
        stateful_step_count=30,
        # Small state machines are slow to draw from; that says nothing about the queue manager.
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.fixture(autouse=True)
def _quiet_log() -> Iterator[None]:
    """Dropped reports and refused deliveries are part of the game and logged a thousand times."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


class FolderMachine(QueueMachine):
    """The same on disk; now and then the queue manager is closed and opened again."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="mayfly-model-"))

    @rule()
    def restart(self) -> None:
        self.manager.close()
        self.sessions.clear()
        self.handles.clear()
        self.manager = QueueManager("QM1", self.folder, self.clock)
        self.model.restart()

    def teardown(self) -> None:
        super().teardown()
        assert self.folder is not None
        shutil.rmtree(self.folder)


@pytest.mark.slow
def test_queue_manager_in_memory_does_what_the_model_says() -> None:
    run_state_machine_as_test(QueueMachine, settings=limits(500))


@pytest.mark.slow
def test_queue_manager_on_disk_does_what_the_model_says_over_restarts() -> None:
    run_state_machine_as_test(FolderMachine, settings=limits(50))
