"""How many examples a test with many takes: a sixteenth in make test, all of them in make soak."""

from hypothesis import settings

#: The profile of make test (tests/conftest.py); those of make soak and make search take everything.
SHORT_PROFILE = "mayfly"


def examples(count: int) -> int:
    """Return how many of ``count`` examples the profile in force takes; at least one."""
    return -(-count // 16) if settings.get_current_profile_name() == SHORT_PROFILE else count
