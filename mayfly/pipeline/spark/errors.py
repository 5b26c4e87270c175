"""Errors of options, checkpoints and lakes.

PipelineError (mayfly/pipeline/lake/errors.py)
├── OptionError      an option of format("mayfly") is unknown, missing or has a bad value
├── CheckpointError  a checkpoint does not fit what it is used with
└── LakeError        a folder is not, or not this query's, lake
"""

from __future__ import annotations

from mayfly.pipeline.lake.errors import LakeError, PipelineError

__all__ = ["CheckpointError", "LakeError", "OptionError", "PipelineError"]


class OptionError(PipelineError, ValueError):
    """An option of ``format("mayfly")`` is unknown, missing or has a bad value."""


class CheckpointError(PipelineError):
    """A checkpoint does not fit the queue manager or the lake it is used with."""
