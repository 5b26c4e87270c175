"""Which worker of pytest-xdist runs which test files.

All tests of a file run on one worker, and all files whose tests share the Spark session run on the
same one: a second session would be a second Java. That worker begins with them; the others take the
rest, file by file, and so does that worker when it has done with Spark.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

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


def one_spark_worker(config: pytest.Config, log: object) -> LoadScopeScheduling:
    """Return what hands out files in the order of the collection, those that share Spark as one."""
    config.option.loadscopereorder = False
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = _unit_of
    return scheduler


def _unit_of(nodeid: str) -> str:
    file = file_of(nodeid)
    return _SPARK if shares_spark(file) else file
