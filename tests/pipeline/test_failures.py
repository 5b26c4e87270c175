"""What has gone wrong in one line, from errors of ours and from what Spark makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j ships no types
from pyspark.errors import AnalysisException, StreamingQueryException

from mayfly.pipeline.bulk.errors import ServerNotReachable, WrongToken
from mayfly.pipeline.bulk.queue_client import ConsumerFenced
from mayfly.pipeline.config import PipelineFileError
from mayfly.pipeline.errors import CheckpointError, OptionError
from mayfly.pipeline.failures import failure_of
from mayfly.pipeline.spark.jvm import JavaNotFound

#: As a query says it: its own first line, the traceback of a worker, and a page of plans.
QUERY = """\
[STREAM_FAILED] Query [id = 5d53, runId = a48a] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function. \
Reason: Traceback (most recent call last):
  File "client.py", line 644, in _call
pyarrow._flight.FlightUnavailableError: failed to connect

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "sink.py", line 21, in write
{raised}
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: calls [id = 5d53, runId = a48a]
Current Committed Offsets: {{Files: {{"logOffset":0}}}}"""


@pytest.mark.parametrize(
    ("error", "is_final"),
    [
        (ServerNotReachable("no Mayfly server answers at grpc://127.0.0.1:9414"), False),
        (WrongToken("the server does not know this token"), True),
        (ConsumerFenced("another query reads under the name billing"), True),
        (OptionError("option queue is missing"), True),
        (CheckpointError("checkpoint /c is that of another query"), True),
        (PipelineFileError(Path("calls.toml"), "sink.1.kind", "'quee' is none of queue"), True),
        (JavaNotFound("Spark needs Java 17"), True),
    ],
)
def test_errors_of_ours_say_themselves_what_is_wrong(error: Exception, is_final: bool) -> None:
    assert failure_of(error) == (str(error), is_final)
    if isinstance(error, JavaNotFound):
        return
    kind = type(error)
    raised = f"{kind.__module__}.{kind.__qualname__}: {error}"
    in_a_worker = StreamingQueryException(QUERY.format(raised=raised))
    assert failure_of(in_a_worker) == (str(error), is_final)


def test_an_error_of_a_worker_that_is_none_of_ours_is_named_with_what_it_says() -> None:
    error = StreamingQueryException(QUERY.format(raised="ZeroDivisionError: division by zero"))
    assert failure_of(error) == ("Spark: ZeroDivisionError: division by zero", False)


def test_what_spark_says_itself_is_cut_to_the_line_that_tells() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 5d53, runId = a48a] terminated with exception: "
        "[USER_RAISED_EXCEPTION] '(value < 0)' is not true! SQLSTATE: P0001 SQLSTATE: XXKST\n"
        "=== Streaming Query ===\nIdentifier: [id = 5d53]"
    )
    said = "Spark: [USER_RAISED_EXCEPTION] '(value < 0)' is not true!"
    assert failure_of(StreamingQueryException(text)) == (said, False)


def test_an_expression_that_cannot_be_planned_is_final() -> None:
    text = "[UNRESOLVED_COLUMN] A column `nope` cannot be resolved. SQLSTATE: 42703;\n'Project"
    said = "Spark: [UNRESOLVED_COLUMN] A column `nope` cannot be resolved."
    assert failure_of(AnalysisException(text)) == (said, True)


@pytest.mark.parametrize(
    "error",
    [ConnectionRefusedError(111, "refused"), Py4JError("An error occurred while calling o1.id")],
)
def test_without_its_java_there_is_nothing_to_start_again(error: Exception) -> None:
    assert failure_of(error) == ("the Java process of Spark has ended", True)
