"""L11: timeouts of transactions are whole seconds, and are over at their very millisecond."""

from __future__ import annotations

import pytest

from mayfly.lifetime.moments import is_timed_out, timeout_ms


def test_L11_a_timeout_is_a_whole_number_of_seconds() -> None:
    assert [timeout_ms("t", seconds) for seconds in (0, 1, 120)] == [0, 1_000, 120_000]
    for wrong in (True, False, "1", 1.5, None):
        with pytest.raises(TypeError, match=f"^t {wrong!r} is no number of seconds$"):
            timeout_ms("t", wrong)  # type: ignore[arg-type]  # what a program may get wrong
    with pytest.raises(ValueError, match=r"^t -1 is negative$"):
        timeout_ms("t", -1)


@pytest.mark.parametrize(
    ("elapsed_ms", "lifetime_ms", "is_over"),
    [(999, 1_000, False), (1_000, 1_000, True), (1_001, 1_000, True), (10**9, 0, False)],
)
def test_L11_a_lifetime_is_over_at_its_very_millisecond(
    elapsed_ms: int, lifetime_ms: int, is_over: bool
) -> None:
    assert is_timed_out(elapsed_ms, lifetime_ms) is is_over
