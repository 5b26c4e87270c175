"""How many examples and seeds a test with many takes: some in make test, all in make soak."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

#: The profile of make test (tests/conftest.py); those of make soak and make search take everything.
SHORT_PROFILE = "mayfly"


def examples(count: int) -> int:
    """Return how many of ``count`` examples the profile in force takes; at least one."""
    return -(-count // 16) if settings.get_current_profile_name() == SHORT_PROFILE else count


def first_of(count: int, *values: object) -> list[ParameterSet]:
    """Return values for ``parametrize``: the first ``count`` in make test, all in make soak.

    A plain tuple has a value for each of several parameters.
    """
    return [
        pytest.param(
            *(value if type(value) is tuple else (value,)),
            marks=() if place < count else pytest.mark.soak,
        )
        for place, value in enumerate(values)
    ]
