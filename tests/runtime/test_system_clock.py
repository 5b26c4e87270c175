"""The machine's clock under steps and slews, and the threads that it drives."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.runtime.clocks import SystemClock
from mayfly.runtime.runtime import Driver

MS = 1_000_000
HOUR_MS = 3_600_000
WALL_MS = 1_700_000_000_000
#: What has not come after this never will, however busy the machine.
PATIENCE_SECONDS = 120


class Machine:
    """A machine whose wall clock can be set; its boot clock only runs."""

    def __init__(self, tolerance_ms: int = HOUR_MS) -> None:
        self.wall_ns = WALL_MS * MS
        self.boot_ns = 5_000 * MS
        self.clock = SystemClock(
            tolerance_ms, wall_ns=lambda: self.wall_ns, elapsed_ns=lambda: self.boot_ns
        )

    def run(self, ms: int) -> int:
        """Let time pass and return what the clock says, from WALL_MS."""
        self.boot_ns += ms * MS
        self.wall_ns += ms * MS
        return self.now()

    def step(self, ms: int) -> int:
        """Set the wall clock."""
        self.wall_ns += ms * MS
        return self.now()

    def now(self) -> int:
        return self.clock.now_ms() - WALL_MS


def test_time_passes() -> None:
    machine = Machine()
    assert [machine.now(), machine.run(1), machine.run(999)] == [0, 1, 1_000]
    assert machine.clock.step_count == 0


@pytest.mark.parametrize("back_ms", [1_001, 60_000, 10 * HOUR_MS])
def test_step_backwards_is_not_followed(back_ms: int) -> None:
    """Own time goes on at its own pace: nothing comes back to life, nothing waits longer."""
    machine = Machine()
    machine.run(1_000)
    assert machine.step(-back_ms) == 1_000
    assert machine.run(500) == 1_500
    assert machine.clock.difference_ms() == -back_ms
    assert machine.clock.step_count == 1
    machine.clock.accept_wall()
    assert machine.run(1) == 1_501


@pytest.mark.parametrize("forward_ms", [1_001, HOUR_MS])
def test_step_forward_is_followed_up_to_the_tolerance(forward_ms: int) -> None:
    machine = Machine()
    assert machine.step(forward_ms) == forward_ms
    assert machine.run(1) == forward_ms + 1
    assert machine.clock.step_count == 1
    assert machine.clock.difference_ms() == 0


def test_step_forward_beyond_the_tolerance_is_kept_until_accepted() -> None:
    """Asked often it is counted once; one bad time server cannot expire everything."""
    machine = Machine()
    assert machine.step(HOUR_MS + 1) == 0
    for _ in range(5):
        machine.run(10)
    assert machine.now() == 50
    assert machine.clock.difference_ms() == HOUR_MS + 1
    assert machine.clock.step_count == 1
    machine.clock.accept_wall()
    assert machine.now() == HOUR_MS + 51
    assert machine.clock.difference_ms() == 0


@pytest.mark.parametrize("step_ms", [HOUR_MS + 60_000, -60_000])
@pytest.mark.parametrize("drift_ms", [1, -1])
def test_a_step_that_is_kept_is_one_step_however_the_two_clocks_drift(
    step_ms: int, drift_ms: int
) -> None:
    """A millisecond at each reading is more than a second after a while."""
    machine = Machine()
    machine.step(step_ms)
    for reading in range(3_000):
        machine.wall_ns += drift_ms * MS
        assert machine.run(10) == (reading + 1) * 10
    assert machine.clock.difference_ms() == step_ms + 3_000 * drift_ms
    assert machine.clock.step_count == 1
    # Another step is told from the drift.
    machine.step(-1_001)
    assert machine.clock.step_count == 2


def test_step_beyond_the_tolerance_that_drifts_back_within_it_is_kept_until_accepted() -> None:
    """Else a wall clock that is slewed back would take all of the tolerance off every life."""
    machine = Machine()
    machine.step(HOUR_MS + 500)
    for reading in range(2_000):
        machine.wall_ns -= MS
        assert machine.run(10) == (reading + 1) * 10
    assert machine.clock.difference_ms() == HOUR_MS - 1_500
    assert machine.clock.step_count == 1
    machine.clock.accept_wall()
    assert machine.now() == 20_000 + HOUR_MS - 1_500
    # The next step is judged for itself again.
    assert machine.step(HOUR_MS) == 20_000 + 2 * HOUR_MS - 1_500
    assert machine.clock.step_count == 2


def test_step_forward_that_is_taken_back_leaves_no_trace() -> None:
    machine = Machine()
    machine.step(10 * HOUR_MS)
    assert machine.step(-10 * HOUR_MS) == 0
    assert machine.run(5) == 5
    assert machine.clock.difference_ms() == 0


def test_every_step_is_counted_also_the_same_one_twice() -> None:
    machine = Machine()
    machine.step(-60_000)
    machine.step(60_000)
    machine.step(-60_000)
    assert machine.clock.step_count == 2
    machine.step(-60_000)
    assert machine.clock.step_count == 3


@pytest.mark.parametrize("held_up_ms", [1_000, 1_001, 10 * HOUR_MS])
def test_a_thread_held_up_between_its_looks_at_the_two_clocks_sees_no_step(
    held_up_ms: int,
) -> None:
    """The machine was busy, or slept: the wall clock it had read is an old one."""
    machine, held_up = Machine(), [0]

    def wall_ns() -> int:
        seen_ns, ns = machine.wall_ns, held_up.pop() * MS if held_up else 0
        machine.wall_ns, machine.boot_ns = machine.wall_ns + ns, machine.boot_ns + ns
        return seen_ns

    machine.clock = SystemClock(HOUR_MS, wall_ns=wall_ns, elapsed_ns=lambda: machine.boot_ns)
    held_up.append(held_up_ms)
    assert 0 <= machine.now() <= held_up_ms
    assert machine.now() == held_up_ms
    assert machine.clock.step_count == 0


def test_own_tolerance() -> None:
    machine = Machine(tolerance_ms=5_000)
    assert machine.step(5_000) == 5_000
    assert machine.step(5_001) == 5_000
    assert machine.clock.step_count == 2


@pytest.mark.parametrize("slew_ms", [1, 500, 1_000])
def test_small_difference_is_a_slew_and_no_step(slew_ms: int) -> None:
    """Forward it is followed; backwards own time is slower until the wall has caught up."""
    machine = Machine()
    assert machine.step(slew_ms) == slew_ms
    assert machine.step(-slew_ms) == slew_ms
    assert machine.run(100 * slew_ms - 100) == 100 * slew_ms - 99
    assert machine.clock.difference_ms() == -1
    assert machine.run(100) == 100 * slew_ms
    assert machine.clock.difference_ms() == 0
    assert machine.run(1_000) == 100 * slew_ms + 1_000
    assert machine.clock.step_count == 0


@pytest.mark.parametrize("back_ms", [1, 930, 1_000])
def test_a_wait_takes_a_hundredth_longer_at_most_when_the_wall_steps_back_a_second(
    back_ms: int,
) -> None:
    """It took 3,930 ms when the clock stood still for as long as the step was."""
    machine = Machine()
    machine.step(-back_ms)
    over_ms = machine.now() + 3_000
    waited_ms = 0
    while machine.now() < over_ms:
        machine.run(1)
        waited_ms += 1
    assert waited_ms == 3_000 + min(back_ms, 31)


def test_a_step_back_while_own_time_is_slowed_keeps_what_it_has_lost() -> None:
    machine = Machine()
    machine.step(-900)
    assert machine.run(10_000) == 9_900
    assert machine.step(-60_000) == 9_900
    assert machine.run(1_000) == 10_900
    assert machine.clock.step_count == 1


def test_a_step_forward_while_own_time_is_slowed_is_followed() -> None:
    machine = Machine()
    machine.step(-900)
    assert machine.run(10_000) == 9_900
    assert machine.step(900) == 10_000
    assert machine.run(1_000) == 11_000


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(-2 * HOUR_MS, 2 * HOUR_MS)), min_size=1, max_size=30
    )
)
def test_time_never_goes_back_and_never_runs_ahead_of_the_wall(
    moves: list[tuple[bool, int]],
) -> None:
    """Whatever happens: not earlier than before, and not later than the latest wall time."""
    machine = Machine()
    last, latest = machine.now(), 0
    for is_step, ms in moves:
        now = machine.step(ms) if is_step else machine.run(abs(ms))
        wall = machine.wall_ns // MS - WALL_MS
        latest = max(latest + (0 if is_step else abs(ms)), wall)
        assert last <= now <= latest
        last = now


class Work:
    """Due work that notes when it ran."""

    def __init__(self, clock: SystemClock, due_ms: int) -> None:
        self.due_ms: int | None = due_ms
        self.ran_at_ms: int | None = None
        self.ran = threading.Event()
        self._clock = clock

    def next_due_ms(self) -> int | None:
        return self.due_ms

    def run_due(self) -> None:
        now_ms = self._clock.now_ms()
        if self.due_ms is not None and self.due_ms <= now_ms:
            self.due_ms = None
            self.ran_at_ms = now_ms
            self.ran.set()


def test_due_work_runs_on_its_own_thread_not_early() -> None:
    clock = SystemClock()
    due_ms = clock.now_ms() + 20
    work = Work(clock, due_ms)
    clock.attach(work)
    assert work.ran.wait(PATIENCE_SECONDS)
    clock.detach(work)
    assert work.ran_at_ms is not None
    assert work.ran_at_ms >= due_ms


def test_wake_brings_work_nearer() -> None:
    clock = SystemClock()
    work = Work(clock, clock.now_ms() + HOUR_MS)
    clock.attach(work)
    work.due_ms = clock.now_ms()
    clock.wake(work)
    assert work.ran.wait(PATIENCE_SECONDS)
    clock.detach(work)


def test_a_wake_while_the_clock_looks_for_what_is_due_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would sleep to the end of its longest sleep."""
    monkeypatch.setattr(Driver, "LONGEST_SLEEP_SECONDS", 3_600.0)

    class Late(Work):
        """Falls due right after it has said that nothing is to come."""

        def next_due_ms(self) -> int | None:
            attached.wait(PATIENCE_SECONDS)
            if self.due_ms is None and not self.ran.is_set():
                self.due_ms = clock.now_ms()
                clock.wake(self)
                return None
            return self.due_ms

    clock, attached = SystemClock(), threading.Event()
    work = Late(clock, 0)
    work.due_ms = None
    clock.attach(work)
    attached.set()
    assert work.ran.wait(PATIENCE_SECONDS)
    clock.detach(work)


def test_detached_work_is_not_run_and_not_missed() -> None:
    clock = SystemClock()
    work = Work(clock, clock.now_ms() + HOUR_MS)
    clock.attach(work)
    clock.detach(work)
    clock.detach(work)
    clock.wake(work)
    assert not work.ran.is_set()
