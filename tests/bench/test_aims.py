"""An aim is that of the build that runs: pure Python has 0.55 of the compiled one to reach."""

from __future__ import annotations

import pytest

from bench import aims
from bench.aims import least_rate, max_cost


@pytest.mark.parametrize(("is_compiled", "rate", "cost"), [(True, 1.5, 50.0), (False, 0.825, 90.9)])
def test_a_rate_sinks_and_a_cost_rises_where_nothing_is_compiled(
    monkeypatch: pytest.MonkeyPatch, is_compiled: bool, rate: float, cost: float
) -> None:
    monkeypatch.setattr(aims, "is_compiled", lambda: is_compiled)
    assert least_rate(1.5) == rate
    assert max_cost(50) == cost
