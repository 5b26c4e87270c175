"""The README's Spark program, run against a real server."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mayfly.servers.flight import FlightServer
from tests.readme import spark_program


def test_the_program_of_the_readme_counts_lives(
    spark: SparkSession,
    manager_server: FlightServer,
    token_file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = spark_program().replace("grpc://127.0.0.1:9414", manager_server.url)
    exec(program, {"token_file": str(token_file)})
    assert "|outcome|count|" in capsys.readouterr().out.replace(" ", "")
