"""Errors of the Spark side: options, checkpoints and lakes.

PipelineError (mayfly/pipeline/lake/errors.py)
├── OptionError      an option of format("mayfly") is unknown, missing or has a bad value
├── CheckpointError  a checkpoint belongs to another query, store or lake
└── LakeError        a folder is no lake, or the lake of another stream
"""

from __future__ import annotations

from mayfly.pipeline.lake.errors import LakeError, PipelineError

__all__ = ["CheckpointError", "LakeError", "OptionError", "PipelineError"]


class OptionError(PipelineError, ValueError):
    """An option of ``format("mayfly")`` is unknown, missing or has a bad value."""


class CheckpointError(PipelineError):
    """A checkpoint belongs to another query, store or lake than the one it is used with."""
