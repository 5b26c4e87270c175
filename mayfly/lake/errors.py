"""What can go wrong with a lake; ``spark/errors.py`` has the rest of the pipeline's errors."""

from __future__ import annotations


class PipelineError(Exception):
    """The pipeline cannot do what it was asked to."""


class LakeError(PipelineError):
    """A folder cannot be used as a lake."""


class PartError(PipelineError, ValueError):
    """A part of a lake cannot be what was named."""


class ExportError(PipelineError, ValueError):
    """What is to be exported, or where to, cannot be what was named."""


class PlotError(PipelineError, ValueError):
    """A picture cannot be made of this, or not in a file of this name."""
