"""Plays the pipeline that releases delayed messages: the same D-rules hold under DDELAY(SPARK).

It makes the calls that Spark's source makes, through the same interface, whenever something is due;
tests/spark/test_delay_by_spark.py does the same with Spark itself.
"""

from __future__ import annotations

from mayfly.engine.api.administration import QMGR
from mayfly.engine.api.bulk import ClaimLimit as Limit
from mayfly.engine.attributes import DDELAY_SPARK
from mayfly.engine.due_work import DueWork
from mayfly.engine.objects import administration
from mayfly.lifetime.times import Driven
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from tests.spec.scene import STAGING

#: Small, so that what falls due together takes more than one claim.
LIMIT = Limit(1_500, 2**22)
TRIGGER_MS = 1_000
_CONSUMER = "releaser"


class Pipeline:
    """One reader of the staging queue; its batches are claimed, read and ended one by one."""

    def __init__(self, work: DueWork) -> None:
        """Attach when first needed: a staging queue may be missing, or closed for get."""
        self._work, self._core = work, work.core
        self._is_running = False
        #: After a failure it comes again at the next trigger.
        self._not_before_ms = 0

    def next_due_ms(self) -> int | None:
        """Return when the next message is due, if it may be released."""
        core = self._core
        if core.is_stopped or self._work.is_ended:
            return None
        with core.engine_lock:
            due_ms = self._work.processor.next_release_ms()
        return None if due_ms is None else max(due_ms - core.ahead_ms, self._not_before_ms)

    def run_due(self) -> None:
        """Release what is due, as batches of a pipeline."""
        if self._is_running:
            return
        self._is_running = True
        try:
            self._release()
        finally:
            self._is_running = False

    def _release(self) -> None:
        claims = self._work.claims
        try:
            standing = claims.attach(_CONSUMER, STAGING)
            after = standing.closed
            while True:
                claims.end(_CONSUMER, standing.epoch, after)
                claimed = claims.claim(_CONSUMER, standing.epoch, after, LIMIT)
                if not claimed.messages:
                    return
                self._read(standing.epoch, after, claimed.until, claimed.messages)
                after = claimed.until
        except MQError:
            # A full disk, or a manager that closes.
            self._not_before_ms = self._core.clock.now_ms() + TRIGGER_MS

    def _read(self, epoch: int, after: int, until: int, count: int) -> None:
        ranges = self._work.claims.ranges(_CONSUMER, epoch, after, until)
        assert sum(high - low for low, high, _ in ranges) == count
        for begin, high, _ in ranges:
            low = begin
            while low < high:
                page = self._work.claims.page(
                    _CONSUMER, epoch, low, high, max_bytes=2**20, max_rows=500
                )
                assert page.message_count > 0
                assert len(page.queue) == page.message_count
                low += page.message_count


class SparkClock(VirtualClock):
    """A clock whose queue managers leave their delayed messages to a pipeline each."""

    def __init__(self, start_ms: int) -> None:
        """Stand still."""
        super().__init__(start_ms)
        self._pipelines: dict[int, Pipeline] = {}

    def attach(self, driven: Driven) -> None:
        """Drive a queue manager; its pipeline comes first, so that what comes in time is there."""
        if isinstance(driven, DueWork):
            self._pipelines[id(driven)] = Pipeline(driven)
            super().attach(self._pipelines[id(driven)])
        super().attach(driven)
        if isinstance(driven, DueWork):
            administration.alter(driven.core, QMGR, "", {"DDELAY": DDELAY_SPARK})

    def detach(self, driven: Driven) -> None:
        """Drive it no longer."""
        pipeline = self._pipelines.pop(id(driven), None)
        if pipeline is not None:
            super().detach(pipeline)
        super().detach(driven)

    def wake(self, driven: Driven) -> None:
        """Run what is due now."""
        pipeline = self._pipelines.get(id(driven))
        if pipeline is not None:
            super().wake(pipeline)
        super().wake(driven)
