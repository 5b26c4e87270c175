"""Which worker of pytest-xdist runs which test files.

All tests of a file run on one worker, and all files whose tests share the Spark session run on the
same one: a second session would be a second Java. That worker begins with them; the others take the
rest, file by file, and so does that worker when it has done with Spark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_ROOT = Path(__file__).parents[1]
_SHARED_SESSION = re.compile(r"\b(spark|session): SparkSession\b")
_SPARK = "spark"


@cache
def shares_spark(file: str) -> bool:
    """Tell whether a test file, named from the root, takes the fixture of the Spark session."""
    return _SHARED_SESSION.search((_ROOT / file).read_text("utf-8")) is not None


def file_of(nodeid: str) -> str:
    """Return the file of a test."""
    return nodeid.partition("::")[0]


class OneSparkWorker(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out files in the order of the collection, those that share Spark as one.

    xdist looks at all tests that a worker has ever had after each of a worker's reports, of which a
    test has three, and searches the whole collection for each test that it hands out: seconds for
    16,000 tests. So a test is forgotten once it has run, and its place is looked up.
    """

    def __init__(self, config: pytest.Config, log: object) -> None:
        """Keep the order of the collection; ``log`` is xdist's own."""
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file = file_of(nodeid)
        return _SPARK if shares_spark(file) else file

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Add the tests that a worker has collected."""
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Collection(collection)

    def mark_test_complete(
        self, node: WorkerController, item_index: int, duration: float = 0
    ) -> None:
        """Forget a test that has run, and hand out the next file if few tests are left."""
        nodeid = self.registered_collections[node][item_index]
        unit, assigned = self._split_scope(nodeid), self.assigned_work[node]
        del assigned[unit][nodeid]
        if not assigned[unit]:
            del assigned[unit]
        self._reschedule(node)


class _Collection(list[str]):
    """The tests that a worker has collected, in their order."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._places = {name: place for place, name in enumerate(names)}

    def index(self, name: str, *_bounds: object) -> int:
        """Return the place of a test."""
        return self._places[name]
