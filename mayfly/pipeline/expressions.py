"""Users' SQL expressions as columns; Spark's errors about them become PipelineErrors."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from mayfly.pipeline.errors import PipelineError
from mayfly.pipeline.spark.errors import OptionError

#: PySpark logs the errors that it raises here, on standard error.
_SPARKS_LOGGER = "SQLQueryContextLogger"


@contextmanager
def as_pipeline_error(path: Path, where: str) -> Iterator[None]:
    """Turn errors of Spark and its options within the block into a PipelineError at ``where``."""
    logger = PySparkLogger.getLogger(_SPARKS_LOGGER)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise PipelineError(path, where, _first_line(error)) from error
    except OptionError as error:
        raise PipelineError(path, where, str(error)) from error
    finally:
        logger.setLevel(level)


def columns_of(
    rows: DataFrame, expressions: Mapping[str, str], path: Path, where: str
) -> dict[str, Column]:
    """Return columns by name; raises PipelineError for an expression that Spark cannot compute."""
    columns = {}
    for name, expression in expressions.items():
        with as_pipeline_error(path, f"{where}, {name}: {expression!r}"):
            columns[name] = f.expr(expression).alias(name)
            _check_repeatable(rows.select(columns[name]))
    return columns


def condition(rows: DataFrame, expression: str, path: Path, where: str) -> Column:
    """Return the column of a condition.

    Raises PipelineError unless it is boolean and computable.
    """
    with as_pipeline_error(path, f"{where}, when: {expression!r}"):
        column = f.expr(expression)
        selected = rows.select(column)
        _check_repeatable(selected)
        kind = selected.schema[0].dataType.simpleString()
        if kind != "boolean":
            raise OptionError(f"is {kind}, neither true nor false")
    return column


def _check_repeatable(rows: DataFrame) -> None:
    """Raise OptionError for uuid(), rand() and the like, since a batch may have to be repeated."""
    plan: Any = rows._jdf.queryExecution().analyzed()
    if not plan.deterministic():
        raise OptionError("gives another value each time: a batch that Spark repeats must be equal")


def _first_line(error: AnalysisException | ParseException) -> str:
    """Return the first line of an error of Spark, without its SQLSTATE."""
    text = next(line for line in str(error).splitlines() if line.strip())
    return text.partition(" SQLSTATE")[0]
