"""Marks: JSON files by which a pipeline recognises the checkpoint and output folders that it began.

Each checkpoint gets an id when it is begun. Queue managers and output folders record this id. So a
pipeline with a new checkpoint is not mistaken for the old one, and does not replace its output.
"""

from __future__ import annotations

import json
import secrets

from pyspark.sql import SparkSession

from mayfly.pipeline.errors import CheckpointError
from mayfly.pipeline.parts import (
    ClaimedSource,
    FileSink,
    FileSource,
    PipelineConfig,
    QueueSource,
    Source,
)
from mayfly.pipeline.spark.checkpoints import Folder, mark_in

#: A name that Spark ignores, in a checkpoint and among data.
MARK = "_mayfly_pipeline.json"


def tie_checkpoint(config: PipelineConfig, spark: SparkSession) -> str:
    """Return the id of the pipeline's checkpoint; for a new checkpoint write a mark with a new id.

    Raises CheckpointError if the checkpoint is of other sources or of another query, or if the mark
    is damaged.
    """
    folder = Folder(spark, config.checkpoint)
    text = folder.read(MARK)
    if text is None:
        if folder.is_of_a_query():
            raise CheckpointError(f"checkpoint {config.checkpoint} is that of another query")
        new_id = secrets.token_hex(16)
        sources = [identity(source) for source in config.sources]
        folder.write(MARK, json.dumps({"id": new_id, "sources": sources}))
        return new_id
    return check_mark(text, config)


def check_mark(text: str, config: PipelineConfig) -> str:
    """Return the checkpoint id in ``text``, the content of a mark file.

    Raises CheckpointError if the mark is damaged, or if its sources differ from the pipeline's.
    """
    where = f"{MARK} in checkpoint {config.checkpoint}"
    mark = mark_in(text, where, {"id": str, "sources": list})
    held, sources = mark["sources"], [identity(source) for source in config.sources]
    if len(held) != len(sources):
        raise CheckpointError(
            f"checkpoint {config.checkpoint} is of {len(held)} sources, the pipeline has "
            f"{len(sources)}: use a new checkpoint"
        )
    for number, (old, new) in enumerate(zip(held, sources, strict=True), 1):
        if old != new:
            raise CheckpointError(
                f"checkpoint {config.checkpoint}: [[source]] {number} was {_text(old)} and is now "
                f"{_text(new)}: use a new checkpoint"
            )
    return str(mark["id"])


def tie_output(sink: FileSink, checkpoint_id: str, spark: SparkSession) -> None:
    """Mark the folder of a file sink as the output of a checkpoint; a second call changes nothing.

    Raises CheckpointError if the folder has the mark of another checkpoint, a damaged mark, or
    batches without a mark.
    """
    folder = Folder(spark, sink.path)
    text = folder.read(MARK)
    if text is None:
        if folder.has("b=0"):
            raise CheckpointError(
                f"folder {sink.path} of sink {sink.name} has batches of somebody else, which would "
                "be overwritten: use a new folder"
            )
        folder.write(MARK, json.dumps({"id": checkpoint_id}))
    elif mark_in(text, f"{MARK} in folder {sink.path}", {"id": str})["id"] != checkpoint_id:
        raise CheckpointError(
            f"folder {sink.path} of sink {sink.name} is the output of another checkpoint, whose "
            "batches would be overwritten: use a new folder"
        )


def identity(source: Source) -> dict[str, str]:
    """Return the fields of a source that must stay equal while a checkpoint is in use.

    The url of a source may change.
    """
    if isinstance(source, ClaimedSource):
        kind = "queue" if isinstance(source, QueueSource) else "staging"
        return {"kind": kind, "queue": source.queue, "consumer": source.consumer}
    if isinstance(source, FileSource):
        return {"kind": "files", "format": source.format, "path": source.path}
    return {"kind": "kafka", "topic": source.topic}


def _text(source: dict[str, str]) -> str:
    """Return the identity of a source for an error text: ``kind queue queue Q1 consumer C``."""
    return " ".join(f"{name} {value}" for name, value in source.items())
