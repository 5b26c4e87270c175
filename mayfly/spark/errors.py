"""What can go wrong in the pipeline before or beside the reading itself.

PipelineError
├── OptionError      an option of format("mayfly") is unknown, missing or has a bad value
├── CheckpointError  a checkpoint does not fit what it is used with
└── LakeError        a folder is not, or not this query's, lake
"""

from __future__ import annotations


class PipelineError(Exception):
    """The pipeline cannot do what it was asked to."""


class OptionError(PipelineError, ValueError):
    """An option of ``format("mayfly")`` is unknown, missing or has a bad value."""


class CheckpointError(PipelineError):
    """A checkpoint does not fit the queue manager or the lake it is used with."""


class LakeError(PipelineError):
    """A folder cannot be used as a lake."""
