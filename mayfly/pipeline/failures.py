"""Failures of a pipeline's query: the cause in one line, and whether a restart may cure it.

An error in one of Spark's workers or in its planner arrives as text with a traceback in it. Errors
of this package are recognised there by their names.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # has no types
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
    StreamingQueryException,
)

from mayfly.pipeline.bulk import queue_client
from mayfly.pipeline.bulk.errors import BulkError, ServerFailed, ServerNotReachable
from mayfly.pipeline.config import PipelineFileError
from mayfly.pipeline.errors import PipelineError
from mayfly.pipeline.spark.jvm import JavaNotFound


class RowsBackedOut(PipelineError):
    """Messages that made a batch fail were backed out; after a restart it runs without them."""


#: Errors of starting or watching a query that are no mistakes in our code.
RAISED = (
    PipelineFileError,
    PipelineError,
    BulkError,
    JavaNotFound,
    PySparkException,
    Py4JError,
    ConnectionError,
)
#: Errors of every call to Spark once its Java is gone; Java's own exceptions are Py4JJavaError.
JAVA_ENDED = (Py4JError, ConnectionError)
#: Our errors that may be over in a while; all others come again at every start.
_PASSING = (
    RowsBackedOut,
    ServerNotReachable,
    ServerFailed,
    queue_client.QueueManagerRefused,
    queue_client.LeaseExpired,
    queue_client.RowsRefused,
    queue_client.StageLost,
)
#: Raised while a query is planned: its settings or expressions are wrong.
_PLANNING = (AnalysisException, IllegalArgumentException, ParseException)
#: The last line of a traceback: the name of an exception with its modules, and its text.
_NAMED = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_OURS = re.compile(r"\b(mayfly(?:\.\w+)+): (.+)")
_PREFIX = re.compile(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
#: Spark's condition when the rows that a checkpoint holds have no operator, or one more has none.
_OTHER_STATE = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
_SUFFIX = re.compile(r"(?: SQLSTATE: \w+;?)+$")


class QueryFailure(NamedTuple):
    """The reason of a failed query in one line; ``is_final`` means that no restart can help."""

    text: str
    is_final: bool


def failure_of(error: BaseException) -> QueryFailure:
    """Return the reason of an error that started or ended a query, as one line.

    ``error`` is one of RAISED, or the exception of a Spark query. ``is_final`` is False for errors
    that may pass, such as a server that cannot be reached.
    """
    if isinstance(error, JAVA_ENDED) and not isinstance(error, Py4JJavaError):
        return QueryFailure("the Java process of Spark has ended", is_final=True)
    if not isinstance(error, PySparkException | Py4JJavaError):
        return QueryFailure(_one_line(str(error)), is_final=not isinstance(error, _PASSING))
    is_planning = isinstance(error, _PLANNING) and not isinstance(error, StreamingQueryException)
    return _of_text(str(error), is_final=is_planning)


def may_be_of_rows(error: BaseException) -> bool:
    """Return True if single rows may have caused the error, False if they cannot.

    True for the failure of a Spark task in which no Mayfly error occurs other than ServerFailed.
    False for an error that is not Spark's or is found while a query is planned.
    """
    if not isinstance(error, PySparkException | Py4JJavaError):
        return False
    if isinstance(error, AnalysisException | ParseException):
        return False
    kinds = _kinds()
    ours = [kinds[name] for name, _text in _OURS.findall(str(error)) if name in kinds]
    # A server that fails for one of its messages says so by ServerFailed.
    return all(issubclass(kind, ServerFailed) for kind in ours)


def _of_text(text: str, *, is_final: bool) -> QueryFailure:
    """Return the failure in an error text of Spark, which may contain a traceback.

    The innermost Mayfly error decides text and ``is_final``. Without one the text is Spark's, and
    ``is_final`` is the argument.
    """
    if _OTHER_STATE in text:
        advice = "use [delay_line] holds_all as before until none waits there, or a new checkpoint"
        text = f"other rows than before wait in the delay line: {advice}"
        return QueryFailure(text, is_final=True)
    kinds = _kinds()
    # The innermost exception comes last in the text and is the cause.
    for name, message in reversed(_OURS.findall(text)):
        if name in kinds:
            return QueryFailure(_one_line(message), is_final=not issubclass(kinds[name], _PASSING))
    cause = _PREFIX.sub("", text.strip()).partition("\n")[0]
    raised = _NAMED.findall(text) if "Traceback" in text else []
    if raised:
        cause = ": ".join(raised[-1])
    return QueryFailure(f"Spark: {_one_line(cause)}", is_final)


def _one_line(text: str) -> str:
    """Return ``text`` with all white space made single spaces, without SQLSTATE at its end."""
    return _SUFFIX.sub("", " ".join(text.split()))


def _kinds() -> dict[str, type[Exception]]:
    """Return the exception classes of this package by full name, such as ``mayfly.….BulkError``."""
    found: dict[str, type[Exception]] = {}
    left: list[type[Exception]] = [BulkError, PipelineError, PipelineFileError]
    while left:
        kind = left.pop()
        found[f"{kind.__module__}.{kind.__qualname__}"] = kind
        left.extend(kind.__subclasses__())
    return found
