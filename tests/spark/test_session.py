"""The session: local, on the Java and Python we mean, and quiet."""

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from mayfly.pipeline.spark.jvm import spark_home
from mayfly.spark import create_session

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_driver_listens_on_this_machine_only(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == conf.get("spark.driver.bindAddress") == "127.0.0.1"


def test_workers_run_this_python(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert found == [sys.executable]
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_workers_import_pyspark_from_its_package(spark: SparkSession) -> None:
    """From Spark's archive each worker would compile it anew, and list the archive's files."""

    def files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})

    [row] = spark.range(1).mapInArrow(files, "file string").collect()
    assert row["file"] == pyspark.__file__


def test_the_folder_for_spark_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first makes it, the second finds it; it has no archives."""
    monkeypatch.setenv("MAYFLY_CACHE", str(tmp_path))
    made = {spark_home() for _ in range(2)}
    assert made == {*tmp_path.iterdir()}
    [home] = made
    assert (home / "bin" / "spark-class").is_file()
    assert not (home / "python").exists()


def test_dates_are_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sql("select string(timestamp_millis(0))").first() == ("1970-01-01 00:00:00",)


def test_asking_again_gives_the_same_session(spark: SparkSession) -> None:
    again = create_session("local[2]", fast=True)
    assert again.sparkContext is spark.sparkContext


def test_loggers_of_pyspark_leave_the_log_of_tests_as_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They give JSON to each handler that they have, also to the one that tests read."""
    logger = PySparkLogger.getLogger("tests of the log")
    logger.addHandler(caplog.handler)
    try:
        logging.getLogger("mayfly.tests").error('says "so"')
    finally:
        logger.removeHandler(caplog.handler)
    assert caplog.text.rstrip().endswith('says "so"')
