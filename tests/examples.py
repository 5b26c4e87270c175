"""How many examples and seeds a test with many takes: some in make test, all in make soak."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

#: The profile of make test (tests/conftest.py); those of make soak and make search take everything.
SHORT_PROFILE = "mayfly"


def examples(count: int) -> int:
    """Return how many of ``count`` examples the profile in force takes; at least one."""
    return -(-count // 16) if settings.get_current_profile_name() == SHORT_PROFILE else count


def first_of(count: int, *values: object) -> list[Any]:
    """Return values for ``parametrize``: the first ``count`` in make test, all in make soak."""
    others = [pytest.param(value, marks=pytest.mark.soak) for value in values[count:]]
    return [*values[:count], *others]
