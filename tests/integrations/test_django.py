"""Django Tasks on Mayfly: run_after, priority, results, the worker and the checks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from mayfly.queue_manager import QueueManager
from mayfly.testing import VirtualClock

pytest.importorskip("django", reason="the extra django is not installed")

from django.core.management import CommandError, call_command
from django.utils import timezone

from mayfly.integrations.django import framework
from mayfly.integrations.django.backend import MayflyBackend, close_clients
from mayfly.integrations.django.worker import TaskWorker
from mayfly.integrations.queues import msg_id_of
from tests.facts import wait_until, wait_until_blocked
from tests.integrations import web_tasks

DAY_MS = 24 * 3_600_000


@pytest.fixture
def backend(queue_manager: QueueManager) -> Iterator[MayflyBackend]:
    """The backend of the settings, on the queue manager of the test."""
    yield web_tasks.add.get_backend()
    close_clients()
    web_tasks.noted.clear()


@pytest.fixture
def worker(backend: MayflyBackend) -> Iterator[TaskWorker]:
    """A worker of the backend, which runs what the test tells it."""
    made = TaskWorker(backend)
    yield made
    made.close()


def run_all(worker: TaskWorker) -> None:
    """Run all tasks that are due."""
    while worker.run_next(wait_ms=0):
        pass


def test_a_task_runs_and_its_result_is_there(
    worker: TaskWorker, queue_manager: QueueManager
) -> None:
    result = web_tasks.add.enqueue(1, other=2)
    assert str(result.status) == "READY"
    assert web_tasks.add.get_result(result.id).enqueued_at == result.enqueued_at
    run_all(worker)
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == ("SUCCESSFUL", 3, 1)
    assert result.started_at <= result.finished_at
    assert result.worker_ids == [worker.id]
    sentence = queue_manager.why(msg_id_of(result.id)).sentence
    assert sentence.startswith("It was got from django.tasks.default")
    assert queue_manager.curdepth("django.results") == 1


def test_a_coroutine_runs_and_what_fails_says_why(worker: TaskWorker) -> None:
    good, bad, odd = (
        web_tasks.later.enqueue(),
        web_tasks.fail.enqueue(),
        web_tasks.no_json.enqueue(),
    )
    run_all(worker)
    for result in (good, bad, odd):
        result.refresh()
    assert good.return_value == "from a coroutine"
    assert bad.status == "FAILED"
    assert bad.errors[0].exception_class is ValueError
    assert "no luck" in bad.errors[0].traceback
    assert odd.status == "FAILED"
    assert odd.errors[0].exception_class is TypeError


def test_run_after_is_a_delay_and_a_task_that_waits_can_be_cancelled(
    worker: TaskWorker, backend: MayflyBackend, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    """Three days pass for the queue manager and the worker."""
    after = timezone.now() + timedelta(days=3)
    waiting = web_tasks.note.using(run_after=after).enqueue("later")
    cancelled = web_tasks.note.using(run_after=after).enqueue("never")
    assert backend.cancel(cancelled.id)
    with pytest.raises(framework.TaskResultDoesNotExist):
        cancelled.refresh()
    sentences = [queue_manager.why(msg_id_of(each.id)).sentence for each in (waiting, cancelled)]
    assert sentences[0].startswith("It waits for its delivery time: due on django.tasks.mail")
    assert sentences[1].startswith("It was cancelled")
    clock.advance(3 * DAY_MS - 60_000)
    run_all(worker)
    assert web_tasks.noted == []
    # A part of a millisecond counts as a whole one.
    clock.advance(60_001)
    run_all(worker)
    waiting.refresh()
    assert (web_tasks.noted, waiting.return_value) == (["later"], 1)
    assert waiting.task.run_after == after
    assert not backend.cancel(waiting.id)


def test_a_worker_that_waits_runs_a_task_three_days_later(
    worker: TaskWorker, clock: VirtualClock
) -> None:
    after = timezone.now() + timedelta(days=3)
    result = web_tasks.add.using(run_after=after).enqueue(1, 2)
    running = threading.Thread(target=worker.run)
    running.start()
    wait_until_blocked(running)
    clock.advance(3 * DAY_MS + 1)
    wait_until(lambda: result.refresh() or result.status == "SUCCESSFUL")
    worker.stop()
    running.join()
    assert result.return_value == 3


def test_a_higher_priority_comes_first(worker: TaskWorker) -> None:
    for priority in (-100, 100, 0):
        web_tasks.note.using(priority=priority).enqueue(priority)
    run_all(worker)
    assert web_tasks.noted == [100, 0, -100]


def test_a_result_is_kept_as_long_as_the_settings_say(
    worker: TaskWorker, clock: VirtualClock
) -> None:
    result = web_tasks.add.enqueue(1, 2)
    run_all(worker)
    clock.advance(3_600_000 - 1)
    result.refresh()
    clock.advance(1)
    with pytest.raises(framework.TaskResultDoesNotExist):
        result.refresh()


def test_a_task_whose_worker_ends_runs_again_as_the_next_attempt(
    worker: TaskWorker, queue_manager: QueueManager
) -> None:
    result = web_tasks.interrupted.enqueue()
    with pytest.raises(SystemExit):
        run_all(worker)
    result.refresh()
    assert (result.status, result.attempts) == ("RUNNING", 1)
    with pytest.raises(SystemExit):
        run_all(worker)
    result.refresh()
    assert result.attempts == 2
    assert queue_manager.counts("django.tasks.default").live == 1
    # That of its enqueueing, and that of the last attempt.
    assert queue_manager.curdepth("django.results") == 2


def test_what_is_no_task_and_what_comes_too_often_is_set_aside(
    worker: TaskWorker, queue_manager: QueueManager
) -> None:
    queue_manager.mqsc("ALTER QMGR DEADQ(SYSTEM.DEAD.LETTER.QUEUE)")
    with queue_manager.session() as session:
        session.put("django.tasks.default", b"of a program in COBOL")
        record = b'{"id": "1", "task": "tests.integrations.web_tasks.noted"}'
        session.put("django.tasks.default", record)
    run_all(worker)
    assert queue_manager.curdepth("SYSTEM.DEAD.LETTER.QUEUE") == 2
    assert queue_manager.counts("django.tasks.default").live == 0


def test_the_command_drains_and_names_what_is_wrong(backend: MayflyBackend) -> None:
    result = web_tasks.add.enqueue(1, 2)
    call_command("mayfly_worker", drain=True)
    result.refresh()
    assert result.return_value == 3
    with pytest.raises(CommandError, match="'other' is none of default"):
        call_command("mayfly_worker", backend="other")


@pytest.mark.parametrize(
    ("options", "ids"),
    [({"URL": "QM1"}, []), ({}, ["mayfly.E001"]), ({"URL": "QM1", "HOST": "h"}, ["mayfly.E002"])],
)
def test_the_system_check_finds_wrong_settings(options: dict[str, Any], ids: list[str]) -> None:
    backend = MayflyBackend("default", {"OPTIONS": options})
    assert [message.id for message in backend.check()] == ids


def test_no_task_is_put_when_its_arguments_are_no_json(
    backend: MayflyBackend, queue_manager: QueueManager
) -> None:
    with pytest.raises(TypeError):
        web_tasks.add.enqueue(object(), 1)
    result = web_tasks.add.enqueue(1, 2)
    assert queue_manager.curdepth("django.results") == 1
    assert queue_manager.counts("django.tasks.default").live == 1
    assert result.args == [1, 2]
