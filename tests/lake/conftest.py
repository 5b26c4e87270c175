"""One knife for all tests of lakes: an audit hook cannot be taken away."""

from __future__ import annotations

import pytest

from tests.lake.knife import Knife


@pytest.fixture(scope="session")
def knife() -> Knife:
    """Ends a function before a change to a file."""
    return Knife()
