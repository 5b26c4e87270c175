"""SQL expressions of a pipeline's file as Spark columns, and Spark's errors about them."""

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

from mayfly.pipeline.errors import OptionError
from mayfly.pipeline.parts import PipelineFileError

#: PySpark logs the errors that it raises here, on standard error.
_SPARKS_LOGGER = "SQLQueryContextLogger"


@contextmanager
def as_pipeline_error(path: Path, where: str) -> Iterator[None]:
    """Return a context that turns Spark's analysis errors into a PipelineFileError about ``where``.

    An OptionError is turned as well. Spark does not log its errors inside the context.
    """
    logger = PySparkLogger.getLogger(_SPARKS_LOGGER)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise PipelineFileError(path, where, _first_line(error)) from error
    except OptionError as error:
        raise PipelineFileError(path, where, str(error)) from error
    finally:
        logger.setLevel(level)


def columns_of(
    rows: DataFrame, expressions: Mapping[str, str], path: Path, where: str
) -> dict[str, Column]:
    """Return a Spark column for each SQL expression, by name.

    Raises PipelineFileError about ``where`` in the file ``path`` if Spark cannot compute an
    expression, or if it is not deterministic.
    """
    columns = {}
    for name, expression in expressions.items():
        with as_pipeline_error(path, f"{where}, {name}: {expression!r}"):
            columns[name] = f.expr(expression).alias(name)
            _check_repeatable(rows.select(columns[name]))
    return columns


def condition(rows: DataFrame, expression: str, path: Path, where: str) -> Column:
    """Return the Spark column of a SQL condition.

    Raises PipelineFileError about ``where`` in the file ``path`` unless the expression is boolean,
    deterministic and computable from ``rows``.
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
    """Raise OptionError if ``rows`` use uuid(), rand() or the like: a repeat would differ."""
    plan: Any = rows._jdf.queryExecution().analyzed()
    if not plan.deterministic():
        raise OptionError("gives another value each time: a batch that Spark repeats must be equal")


def _first_line(error: AnalysisException | ParseException) -> str:
    """Return the first line of Spark's error text, without the SQLSTATE behind it."""
    text = next(line for line in str(error).splitlines() if line.strip())
    return text.partition(" SQLSTATE")[0]
