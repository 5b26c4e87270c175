"""Registers ``format("mayfly")`` with a session, for writes on each of its threads.

Spark looks up a Python source in the session that is active on the thread. A Python thread has no
active session until something sets it; a pool or a scheduler does not. A write planned on another
thread would then end with DATA_SOURCE_NOT_FOUND.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from mayfly.pipeline.spark.source import MayflyDataSource

_FORMAT = MayflyDataSource.name()


def register(spark: SparkSession) -> None:
    """Register ``format("mayfly")`` with a Spark session, for writes on any of its threads.

    Also patches Spark's writer classes once for the process; a second call does not patch again.
    """
    spark.dataSource.register(MayflyDataSource)
    # The classes are patched: neither has a hook, and each ``df.write`` makes a new instance.
    writers: tuple[Any, ...] = (DataFrameWriter, DataStreamWriter)
    for writer in writers:
        if not hasattr(writer.format, "is_of_mayfly"):
            writer.format = _with_active_session(writer.format)


def _with_active_session(format_: Callable[..., Any]) -> Callable[..., Any]:
    """Return Spark's method ``format`` such that "mayfly" first activates the rows' session."""

    @functools.wraps(format_)
    def named(writer: Any, source: str) -> Any:
        """Call Spark's ``format``; for "mayfly" first activate the session of the rows."""
        if source.lower() == _FORMAT:
            _activate(writer._df)
        return format_(writer, source)

    vars(named)["is_of_mayfly"] = True
    return named


def _activate(rows: DataFrame) -> None:
    """Make the DataFrame's session the active one for this thread in Spark's JVM."""
    session: Any = rows.sparkSession
    session._jvm.SparkSession.setActiveSession(session._jsparkSession)
