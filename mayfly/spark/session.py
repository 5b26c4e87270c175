"""Make the Spark session that the pipeline runs in: local and quiet unless told otherwise."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from mayfly.spark.jvm import ensure_java
from mayfly.spark.source import MayflyDataSource

#: As a URL: a path may hold spaces, which would end a Java option.
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties").as_uri()
# A stopping query unwinds regular expressions on its thread; the default stack is too small.
_JAVA_OPTIONS = f"-Xss8m -Dlog4j2.configurationFile={_LOG_SETTINGS}"

#: What a session on one machine needs; a conf handed in wins over each.
_LOCAL = {
    # Else Spark listens on the address the machine has to the outside.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
}

#: For tests: a small session whose jobs start in tenths of a second.
_FAST = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.shuffle.compress": "false",
    "spark.rdd.compress": "false",
    "spark.sql.streaming.stateStore.maintenanceInterval": "600s",
    "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def create_session(
    master: str = "local[*]",
    app_name: str = "mayfly",
    conf: Mapping[str, str] | None = None,
    *,
    fast: bool = False,
) -> SparkSession:
    """Return a Spark session in which ``format("mayfly")`` is known.

    Java is found by ``ensure_java``, which raises JavaNotFound; workers run this very Python.
    ``conf`` has the last word. ``fast`` trades throughput for short jobs, as tests want it. Where a
    session is active already, that one is returned and only its SQL settings change.
    """
    # Spark reads these from the environment when it starts its JVM and its workers.
    os.environ["JAVA_HOME"] = str(ensure_java().path)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if master.startswith("local"):
        # Else it looks for an outer address and says at length what it found.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName(app_name)
    settings = {**_LOCAL, **(_FAST if fast else {}), **(conf or {})}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF" if fast else "ERROR")
    spark.dataSource.register(MayflyDataSource)
    return spark
