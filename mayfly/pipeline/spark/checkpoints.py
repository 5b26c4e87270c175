"""Checkpoints of Spark queries: marks that tie one to a delay line, and access to its files.

Spark itself would continue another query's checkpoint, or fail with an error that does not show the
reason. The folder may be on any file system that Spark knows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # has no types
from pyspark.sql import SparkSession

from mayfly.pipeline.errors import CheckpointError
from mayfly.verbs.contracts.config_files import scheme_of

#: Names in the checkpoint of any query that has begun.
SPARKS_OWN = ("offsets", "metadata")
_MARK = "_mayfly_delay_line.json"
_KIND = "delay line"


def mark_in(text: str, where: str, kinds: Mapping[str, type]) -> dict[str, Any]:
    """Return the JSON object in the text of a mark, the file by which a folder is recognised.

    Raises CheckpointError if the text is damaged: no JSON object, or without a value of the right
    type for each key in ``kinds``. ``where`` names the mark and its folder in the error.
    """
    try:
        mark = json.loads(text)
    except ValueError as error:
        raise CheckpointError(f"{where} is damaged: {error}") from error
    for key, kind in kinds.items():
        if not isinstance(mark, dict) or not isinstance(mark.get(key), kind):
            raise CheckpointError(f"{where} is damaged: it has no {key}")
    return dict(mark)


def tie_checkpoint(spark: SparkSession, checkpoint: str, columns: Mapping[str, str]) -> str:
    """Mark a new checkpoint as a delay line's, or check its mark; return the folder's full URL.

    A delay line holds rows until their delivery time. ``columns`` are the rows' columns (name to
    type). Raises CheckpointError if another query has begun the checkpoint, if its rows have other
    columns, or if the mark is damaged.
    """
    folder = Folder(spark, checkpoint)
    mark = folder.read(_MARK)
    if mark is None:
        if folder.is_of_a_query():
            raise CheckpointError(
                f"checkpoint {checkpoint} is that of another query, no delay line: use a new one"
            )
        folder.write(_MARK, json.dumps({"kind": _KIND, "columns": dict(columns)}))
        return folder.path
    held = mark_in(mark, f"{_MARK} in checkpoint {checkpoint}", {"columns": dict})["columns"]
    for name in {**held, **columns}:
        if held.get(name) != columns.get(name):
            raise CheckpointError(
                f"checkpoint {checkpoint} holds messages whose column {name} is "
                f"{held.get(name, 'missing')}, in this query it is {columns.get(name, 'missing')}: "
                "use the query it was made with, or a new checkpoint"
            )
    return folder.path


def check_scheme(spark: SparkSession, path: str) -> None:
    """Raise CheckpointError if ``path`` is a URL whose scheme has no file system in this Spark."""
    scheme = scheme_of(path)
    if not scheme:
        return
    jvm: Any = spark.sparkContext._jvm
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
    except Py4JJavaError as error:
        raise CheckpointError(
            f"{path}: this Spark has no file system for {scheme}: name its package in "
            "spark.jars.packages, or put its jars among Spark's own"
        ) from error


class Folder:
    """A folder on any file system that Spark knows, by Hadoop's classes."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        """Find the file system of a path or URL; the folder need not exist.

        Raises CheckpointError for an unknown scheme.
        """
        check_scheme(spark, path)
        jvm: Any = spark.sparkContext._jvm
        self._new_path = jvm.org.apache.hadoop.fs.Path
        self._text = jvm.org.apache.commons.io.IOUtils
        given = self._new_path(path)
        configuration = spark.sparkContext._jsc.hadoopConfiguration()
        self._files: Any = given.getFileSystem(configuration)
        self.path: str = self._files.makeQualified(given).toString()

    def has(self, name: str) -> bool:
        """Return True if a file or subfolder of this name exists in the folder."""
        return bool(self._files.exists(self._new_path(self.path, name)))

    def is_of_a_query(self) -> bool:
        """Return True if this is the checkpoint of a query that has begun, of any kind."""
        return any(self.has(name) for name in SPARKS_OWN)

    def names(self, folder: str) -> list[str]:
        """Return the names in a subfolder, an empty list if it does not exist."""
        if not self.has(folder):
            return []
        found = self._files.listStatus(self._new_path(self.path, folder))
        return [str(status.getPath().getName()) for status in found]

    def read(self, name: str) -> str | None:
        """Return the text of a file, None if it does not exist."""
        if not self.has(name):
            return None
        stream = self._files.open(self._new_path(self.path, name))
        try:
            return str(self._text.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a file atomically: a killed driver leaves a complete file or none of this name."""
        unfinished = self._new_path(self.path, f"{name}.new")
        stream = self._files.create(unfinished, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        self._files.rename(unfinished, self._new_path(self.path, name))
