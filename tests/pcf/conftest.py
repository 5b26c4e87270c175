"""A queue manager in virtual time, and a function that gives it PCF commands as a program does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mayfly import QueueManager, pymqi

#: Runs a command by its name without MQCMD_, with arguments and filters.
Run = Callable[..., list[dict[int, Any]]]
#: Runs a command that must fail; returns its reason code and the text of the error.
Fails = Callable[..., tuple[int, str]]


@pytest.fixture
def execute(queue_manager: QueueManager) -> Iterator[pymqi.PCFExecute]:
    """PCF commands of the user who opened ``QM1``."""
    pcf = pymqi.PCFExecute(pymqi.connect(queue_manager.name))
    yield pcf
    pcf.disconnect()


@pytest.fixture
def run(execute: pymqi.PCFExecute) -> Run:
    """Run a command, as in ``run("INQUIRE_Q", {CMQC.MQCA_Q_NAME: b"*"})``."""

    def call(name: str, *arguments: Any) -> list[dict[int, Any]]:
        found: list[dict[int, Any]] = getattr(execute, f"MQCMD_{name}")(*arguments)
        return found

    return call


@pytest.fixture
def fails(run: Run) -> Fails:
    """Run a command that must fail."""

    def call(name: str, *arguments: Any) -> tuple[int, str]:
        with pytest.raises(pymqi.MQMIError) as raised:
            run(name, *arguments)
        assert raised.value.comp == pymqi.CMQC.MQCC_FAILED
        return raised.value.reason, " ".join(raised.value.__notes__)

    return call
