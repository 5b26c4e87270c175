"""Creates the Spark session of a pipeline: by default local and quiet."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from mayfly.pipeline.spark.jvm import ensure_java, spark_home
from mayfly.pipeline.spark.source import MayflyDataSource

#: A URL, since a path may hold spaces, which would end a Java option.
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties").as_uri()
# A stopping query unwinds regular expressions on its thread; the default stack is too small.
_STACK = "-Xss8m"
_LOGGING = f"{_STACK} -Dlog4j2.configurationFile={_LOG_SETTINGS}"
# On few processors the default collector costs a rescan of a lake a fifth of its time.
_JAVA_OPTIONS = f"{_LOGGING} -XX:+UseParallelGC"
# A small session compiles much and keeps little. Without these its Java clears away compiled code
# to stay below 48 MB, and all of the heap each time that there are more classes than 20 MB hold.
_FAST_ROOM = "-XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m -XX:NewRatio=1"
_FAST_JAVA_OPTIONS = f"{_LOGGING} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC {_FAST_ROOM}"
_FORMAT = MayflyDataSource.name()
_EXECUTOR_OPTIONS = "spark.executor.extraJavaOptions"
#: Whether Spark works out of each filter and column what holds of others. A query that compares
#: many columns with each other, as the proof of a lake does, is planned four times as long for it.
CONSTRAINT_PROPAGATION = "spark.sql.constraintPropagation.enabled"
#: Set by spark-submit for the program it runs: the port of the Java that waits for it.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"

#: Settings that a pipeline needs with every master; a conf handed in wins over each.
_ALWAYS = {
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
    _EXECUTOR_OPTIONS: _STACK,
}

#: Settings when all of Spark is on this machine. It listens on the loopback address, otherwise on
#: one that is visible from outside. Executors find the log settings where the driver has them.
#: Checkpoints are on a local disk: Hadoop's usual way of writing them starts a program to rename a
#: file, a third of a small micro-batch, and its local file system has checksums of its own.
_THIS_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    _EXECUTOR_OPTIONS: _JAVA_OPTIONS,
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}

#: For tests: a small session whose jobs start in tenths of a second.
_FAST = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    CONSTRAINT_PROPAGATION: "false",
    "spark.shuffle.compress": "false",
    "spark.rdd.compress": "false",
    "spark.sql.streaming.stateStore.maintenanceInterval": "600s",
    "spark.driver.extraJavaOptions": _FAST_JAVA_OPTIONS,
    _EXECUTOR_OPTIONS: _FAST_JAVA_OPTIONS,
}


def create_session(
    master: str = "local[*]",
    app_name: str = "mayfly",
    conf: Mapping[str, str] | None = None,
    *,
    fast: bool = False,
) -> SparkSession:
    """Return a Spark session whose threads all read and write ``format("mayfly")``.

    Java is found by ``ensure_java``, which raises JavaNotFound; workers run this Python. ``conf``
    overrides all other settings. ``fast`` suits tests: short jobs at the cost of throughput. If a
    session is active already, it is returned and only its SQL settings change. In a program that
    spark-submit runs, its Java, Python, master and settings stay; only ``conf`` overrides them.
    """
    submitted = _submitted()
    if submitted is None:
        _prepare_environment(master)
        settings = {"spark.master": master, "spark.app.name": app_name}
    else:
        settings = submitted
        master = submitted["spark.master"]
    defaults = {
        **_ALWAYS,
        **(_THIS_MACHINE if _is_this_machine(master) else {}),
        **(_FAST if fast else {}),
    }
    builder = SparkSession.builder
    all_settings = {**defaults, **settings, **(conf or {})}
    for name, value in all_settings.items():
        builder = builder.config(name, value)
    if submitted is None:
        _start_java(all_settings)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF" if fast else "ERROR")
    # Spark finds it by name, by the Python that the environment of its Java names. A module of
    # another package that cannot be imported there hides it, and so does a Java without SPARK_HOME.
    spark.dataSource.register(MayflyDataSource)
    write_from_any_thread()
    return spark


def _submitted() -> dict[str, str] | None:
    """Return the settings of spark-submit, None if spark-submit does not run this program."""
    if _SUBMITTED not in os.environ:
        return None
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Spark's Java in a process session of its own; does nothing if it runs already.

    A signal to the process group (from a supervisor, ``timeout``, a terminal) then reaches only
    this process, which ends Spark in good order. Java itself ends when its standard input closes,
    which this process keeps open, however it ends.
    """
    if SparkContext._gateway is not None:
        return
    java_settings = SparkConf(loadDefaults=False).setAll([*settings.items()])
    launch: Any = launch_gateway
    gateway = launch(java_settings, {"start_new_session": True})
    SparkContext._ensure_initialized(gateway=gateway)


def _prepare_environment(master: str) -> None:
    """Set JAVA_HOME and the other variables that Spark reads when it starts Java and workers.

    Raises JavaNotFound if no Java can run Spark.
    """
    os.environ["JAVA_HOME"] = str(ensure_java().path)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if _is_this_machine(master):
        os.environ.setdefault("SPARK_HOME", str(spark_home()))
        # Without this Spark looks for an outer address and logs the result at length.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _is_this_machine(master: str) -> bool:
    """Return True if the master's URL is local or on the loopback address."""
    return master.startswith("local") or urlsplit(master).hostname in ("127.0.0.1", "localhost")


def write_from_any_thread() -> None:
    """Let each thread of this process write ``format("mayfly")``, those of a pool too.

    Without it a write that another thread than the session's own plans ends with
    DATA_SOURCE_NOT_FOUND. Patches Spark's writer classes once for the process; a second call does
    nothing.
    """
    # Spark looks up a Python source in the session that is active on the thread. A Python thread
    # has none until something sets it; a pool or a scheduler does not. The classes are patched:
    # neither has a hook, and each ``df.write`` makes a new instance.
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
