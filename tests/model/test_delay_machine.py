"""Delayed messages and their schedule do what the model says, at every boundary of a batch."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from mayfly import QueueManager
from mayfly.engine import Match
from mayfly.engine.api.programs import ANY
from mayfly.engine.delay import delay_processor, staging_queries
from mayfly.engine.delay.staging import shown
from mayfly.engine.finding.search import in_order
from mayfly.engine.objects import administration
from mayfly.verbs.schedule import Receipt, Scheduled, ScheduleFilter
from tests.examples import examples
from tests.model.machine import QueueMachine
from tests.model.material import (
    ALIAS,
    QUEUES,
    delays,
    label_id,
    labels,
    lives,
    mostly,
    puts,
    reason_of,
    sessions,
)
from tests.model.queues import STAGING, Held, Put
from tests.spec.schedule_scene import AnySchedule

targets = st.sampled_from([*QUEUES, ALIAS])
offsets_ms = st.sampled_from((-200, -1, 0, 1, 100, 101, 5_000))


class Wanted(NamedTuple):
    """A filter whose times count from now."""

    queue: str | None = None
    sender: str | None = None
    from_ms: int | None = None
    before_ms: int | None = None

    def of(self, now_ms: int) -> ScheduleFilter:
        due_from_ms = None if self.from_ms is None else now_ms + self.from_ms
        due_before_ms = None if self.before_ms is None else now_ms + self.before_ms
        return ScheduleFilter(
            self.queue, self.sender, due_from_ms=due_from_ms, due_before_ms=due_before_ms
        )


def is_meant(where: ScheduleFilter, m: Held) -> bool:
    """Tell whether a message of the model is meant."""
    return (
        where.queue in (None, m.target)
        and where.sender in (None, m.sender)
        and (where.due_from_ms is None or where.due_from_ms <= m.due_ms)
        and (where.due_before_ms is None or m.due_ms < where.due_before_ms)
    )


wanted = st.builds(
    Wanted,
    queue=st.none() | targets,
    sender=st.sampled_from((None, None, "user0", "user1")),
    from_ms=st.none() | offsets_ms,
    before_ms=st.none() | offsets_ms,
)


class DelayMachine(QueueMachine):
    """Several sessions delay messages and change the schedule; operators alter the queues."""

    # What programs do

    @rule(
        number=sessions,
        name=targets,
        put=puts(life_ms=lives | st.none(), delay_ms=delays),
        count=st.integers(1, 5),
    )
    def put_many(self, number: int, name: str, put: Put, count: int) -> None:
        """Put messages that are due in the same millisecond."""
        for nth in range(count):
            copy = Put(**vars(put))
            copy.persistent ^= bool(nth % 3 == 2)
            self.compare_put(number, name, copy)

    @rule(number=sessions, label=labels)
    def cancel_by_id(self, number: int, label: int) -> None:
        msg_id = self.any_id(label)
        self.compare_receipt(
            number, (Receipt.CANCELLED, msg_id, None), lambda s: s.cancel(msg_id)
        )  # fmt: skip

    @rule(number=sessions, label=labels)
    def release_by_id(self, number: int, label: int) -> None:
        msg_id, now_ms = self.any_id(label), self.model.now_ms
        self.compare_receipt(
            number, (Receipt.RELEASED, msg_id, now_ms), lambda s: s.release(msg_id)
        )  # fmt: skip

    @rule(number=sessions, label=labels, delay_ms=delays | st.just(0))
    def reschedule_by_delay(self, number: int, label: int, delay_ms: int) -> None:
        msg_id, due_ms = self.any_id(label), self.model.now_ms + delay_ms
        self.compare_receipt(
            number,
            (Receipt.RESCHEDULED, msg_id, due_ms),
            lambda s: s.reschedule(msg_id, delay_ms=delay_ms),
        )

    @rule(number=sessions, label=labels, offset_ms=offsets_ms)
    def reschedule_to_a_moment(self, number: int, label: int, offset_ms: int) -> None:
        msg_id, due_ms = self.any_id(label), self.model.now_ms + offset_ms
        self.compare_receipt(
            number,
            (Receipt.RESCHEDULED, msg_id, due_ms),
            lambda s: s.reschedule(msg_id, deliver_at_ms=due_ms),
        )

    @rule(number=sessions, want=wanted)
    def cancel_by_filter(self, number: int, want: Wanted) -> None:
        where = want.of(self.model.now_ms)
        self.compare_bulk(
            number,
            lambda s: s.cancel_all(where),
            self.model.change_all(
                self.owner(number), lambda m: is_meant(where, m), lambda _: None
            ),
        )  # fmt: skip

    @rule(number=sessions, want=wanted)
    def release_by_filter(self, number: int, want: Wanted) -> None:
        now_ms = self.model.now_ms
        where = want.of(now_ms)
        self.compare_bulk(
            number,
            lambda s: s.release_all(where),
            self.model.change_all(
                self.owner(number),
                lambda m: is_meant(where, m) and m.due_ms > now_ms,
                lambda _: now_ms,
            ),
        )

    @rule(number=sessions, want=wanted, offset_ms=offsets_ms)
    def reschedule_by_filter(self, number: int, want: Wanted, offset_ms: int) -> None:
        due_ms = self.model.now_ms + offset_ms
        where = want.of(self.model.now_ms)
        self.compare_bulk(
            number,
            lambda s: s.reschedule_all(where, deliver_at_ms=due_ms),
            self.model.change_all(
                self.owner(number), lambda m: is_meant(where, m), lambda _: due_ms, checks=True
            ),
        )

    @rule(number=sessions, want=wanted, by_ms=offsets_ms.filter(bool))
    def move_by_filter(self, number: int, want: Wanted, by_ms: int) -> None:
        now_ms = self.model.now_ms
        where = want.of(now_ms)
        self.compare_bulk(
            number,
            lambda s: s.reschedule_all(where, by_ms=by_ms),
            self.model.change_all(
                self.owner(number),
                lambda m: is_meant(where, m) and (by_ms > 0 or m.due_ms > now_ms),
                lambda m: m.due_ms + by_ms,
                checks=True,
            ),
        )

    @rule(number=sessions, want=wanted, limit=st.integers(1, 4))
    def list_all(self, number: int, want: Wanted, limit: int) -> None:
        schedule, where = self.session(number).schedule, want.of(self.model.now_ms)
        found: list[Scheduled] = []
        while page := schedule.list(
            where, limit=limit, after=found[-1].position if found else None
        ):
            assert len(page) <= limit
            found += page
        staged = self.model.queues[STAGING].visible()
        expected = [row_of(m) for m in staged if is_meant(where, m)]
        assert [row[1:2] + row[3:8] + row[8:9] + row[10:] for row in found] == expected
        for entry in found:
            assert schedule.show(entry.msg_id) == entry

    @rule()
    def find_by_the_ids_shown(self) -> None:
        """D3: each has a MsgId of its own on the staging queue, and is found by it."""
        queue = self.manager.engine.registry.queue(STAGING)
        with self.manager.engine.engine_lock:
            rows = [
                row for row, _persistence in in_order(self.manager.engine, queue, ANY, queue.low)
            ]
            shown_ids = [shown(self.manager.engine, row).msg_id for row in rows]
            assert len(set(shown_ids)) == len(rows)
            for row, shown_id in zip(rows, shown_ids, strict=True):
                for match in (Match(shown_id), Match(shown_id, row.msg_id)):
                    found = [
                        one.k
                        for one, _persistence in in_order(
                            self.manager.engine, queue, match, queue.low
                        )
                    ]
                    assert found == [row.k]

    # What operators do

    @rule(allowed=mostly)
    def alter_staging_get(self, allowed: bool) -> None:
        """GET(DISABLED) stops the processor; enabled again it releases what is due (D28)."""
        administration.alter(self.manager.engine, "QLOCAL", STAGING, {"GET": int(not allowed)})
        self.model.queues[STAGING].get_allowed = allowed
        self.model.release_due()

    @rule(allowed=mostly)
    def alter_staging_put(self, allowed: bool) -> None:
        administration.alter(self.manager.engine, "QLOCAL", STAGING, {"PUT": int(not allowed)})
        self.model.queues[STAGING].put_allowed = allowed

    @rule(name=st.sampled_from(list(QUEUES)), from_release=st.booleans())
    def alter_ttlfrom(self, name: str, from_release: bool) -> None:
        administration.alter(self.manager.engine, "QLOCAL", name, {"TTLFROM": int(from_release)})
        self.model.queues[name].lives_from_release = from_release

    @rule(name=st.sampled_from(list(QUEUES)))
    def retarget(self, name: str) -> None:
        """What is staged goes where the alias leads when it is released (D15)."""
        administration.alter(self.manager.engine, "QALIAS", ALIAS, {"TARGET": name})
        self.model.aliases[ALIAS] = name

    def any_id(self, label: int) -> bytes:
        """Return the id of a staged message, of another one, or of none."""
        staged = self.model.queues[STAGING].messages
        if staged and label % 4:
            return staged[label % len(staged)].msg_id
        return label_id(label % (self.label + 1) + 1)

    def compare_receipt(
        self,
        number: int,
        asked: tuple[Receipt, bytes, int | None],
        call: Callable[[AnySchedule], Receipt],
    ) -> None:
        receipt, msg_id, due_ms = asked
        schedule, given = self.session(number).schedule, [""]
        fate = self.model.queues[STAGING].fates.get(msg_id)
        reason = reason_of(lambda: given.append(call(schedule)))
        expected = self.model.change(self.owner(number), msg_id, receipt, due_ms)
        assert (reason, given[-1]) == expected
        # Cancelled again nothing changes, and nothing is noted.
        if not number and not reason and (fate, receipt) != ("cancelled", Receipt.CANCELLED):
            entry = schedule.audit(1)[0]
            assert (entry.msg_id, entry.user, entry.receipt) == (msg_id, "user0", given[-1])

    def compare_bulk(
        self, number: int, call: Callable[[AnySchedule], Iterator[int]], expected: tuple[int, int]
    ) -> None:
        schedule, counts = self.session(number).schedule, [0]
        reason = reason_of(lambda: counts.extend(call(schedule)))
        assert (reason, counts[-1]) == expected
        assert counts == sorted(counts)

    def teardown(self) -> None:
        if hasattr(self, "model"):
            assert self.session(0).schedule.count() == self.model.queues[STAGING].depth()
            for name in QUEUES:
                staged = self.counts(self.model.queues[name])[0]
                assert self.session(0).schedule.count(name) == staged
        super().teardown()


class DelayFolderMachine(DelayMachine):
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


def row_of(m: Held) -> tuple[object, ...]:
    """Return what the schedule tells of a message, as far as the model knows it."""
    return (
        m.msg_id, m.target, m.put_ms, m.due_ms, m.expire_at_ms, m.priority, m.persistent, m.sender,
    )  # fmt: skip


def limits(example_count: int) -> settings:
    return settings(
        max_examples=examples(example_count),
        stateful_step_count=30,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.fixture(autouse=True)
def _quiet_log() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(params=[None, 3], ids=["whole", "batches of 3"])
def _batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Meet the boundaries of batches with a handful of messages."""
    if request.param is not None:
        monkeypatch.setattr(delay_processor, "BATCH", request.param)
        monkeypatch.setattr(staging_queries, "STEP", request.param)


@pytest.mark.slow
@pytest.mark.usefixtures("_batches")
def test_delays_in_memory_do_what_the_model_says() -> None:
    run_state_machine_as_test(DelayMachine, settings=limits(200))


@pytest.mark.slow
@pytest.mark.usefixtures("_batches")
def test_delays_on_disk_do_what_the_model_says_over_restarts() -> None:
    run_state_machine_as_test(DelayFolderMachine, settings=limits(30))
