"""Each Spark of the tests starts with half the work; what it then does stays the same.

Java reads its classes from an archive, which ``python -m tests.spark_start`` makes. A small session
starts in ten seconds of processor time, of which loading classes takes five; ``make test`` starts
some ten Javas. Java passes over an archive that is missing or that another Java or Spark made.
Its second compiler is left out: a Java that ends after seconds would spend a third of them there.
Python imports pyspark from its folder (tests/spark/start/sitecustomize.py).
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ARCHIVE = ROOT / ".venv" / "spark-classes.jsa"
_SITE = ROOT / "tests" / "spark" / "start"
#: Java would tell of each class that it leaves out, and of an archive that does not fit.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
_USE = f"{_QUIET} -Xshare:auto -XX:SharedArchiveFile={ARCHIVE}"
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m"
_MAKE = f"{_QUIET} -XX:ArchiveClassesAtExit={ARCHIVE}"


def environment() -> dict[str, str]:
    """Return the variables with which the processes of the tests start, and theirs in turn."""
    # Drivers and programs of tests find both the modules of the tests and sitecustomize.
    path = [str(_SITE), str(ROOT)]
    variables = {"PYTHONPATH": os.pathsep.join(path)}
    if ARCHIVE.is_file():
        variables |= {"SPARK_MASTER_OPTS": _USE, "SPARK_WORKER_OPTS": _USE}
        return variables | _java_options(f"{_SHORT_LIVED} {_USE}")
    return variables | _java_options(_SHORT_LIVED)


def _java_options(options: str) -> dict[str, str]:
    """Return what gives the Javas of drivers and executors further options."""
    names = ("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions")
    settings = " ".join(f"--conf '{name}={options}'" for name in names)
    return {"PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell"}


def make_archive() -> None:
    """Let a session do a little of everything and keep the classes that it has loaded."""
    from mayfly.spark import create_session

    ARCHIVE.unlink(missing_ok=True)
    os.environ.update(_java_options(_MAKE))
    with tempfile.TemporaryDirectory() as folder:
        spark = create_session("local[2]", "classes", fast=True)
        stream = spark.readStream.format("rate").load().groupBy("value").count()
        query = stream.writeStream.format("memory").queryName("counts").outputMode("complete")
        query.trigger(availableNow=True).start().awaitTermination()
        spark.range(10).write.parquet(f"{folder}/rows")
        rows = spark.read.parquet(f"{folder}/rows").repartition(2)
        rows.mapInArrow(lambda batches: batches, rows.schema).orderBy("id").collect()
    end_java()


def end_java() -> None:
    """End the Java of this process, if Spark has started one; the next session starts another."""
    pyspark: Any = sys.modules.get("pyspark")
    context = None if pyspark is None else pyspark.SparkContext
    if context is None or context._gateway is None:
        return
    if context._active_spark_context is not None:
        context._active_spark_context.stop()
    gateway, context._gateway, context._jvm = context._gateway, None, None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    make_archive()
    sys.exit(not ARCHIVE.is_file())
