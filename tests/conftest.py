"""What every test stands on: no setting of the machine it runs on, the same examples each time."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A busy machine is not a failing rule; what is slow is seen in bench. What make test says depends
# on the program alone: it always takes the same examples, of each state machine a quarter
# (tests/examples.py). make soak takes all of those, and make search takes others.
settings.register_profile("mayfly", deadline=None, derandomize=True)
settings.register_profile("soak", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, print_blob=True)
settings.load_profile("mayfly")


@pytest.fixture(autouse=True, scope="session")
def _nothing_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the user's queue managers and settings, proxies and terminal out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAYFLY_HOME", str(tmp_path_factory.mktemp("mayfly-home")))
        ours = ("MAYFLY_TOKEN", "MAYFLY_TLS_ROOTS", "AMQ_ENFORCE_MAX_EXPIRY_ERROR")
        # A proxy would be asked for the servers of 127.0.0.1; a narrow terminal breaks lines.
        proxies = [name for name in os.environ if name.lower().endswith("_proxy")]
        for name in (*ours, *proxies, "COLUMNS", "LINES"):
            patch.delenv(name, raising=False)
        yield
