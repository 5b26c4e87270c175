"""Errors of a lake; ``pipeline/spark/errors.py`` has the rest of the pipeline's errors."""

from __future__ import annotations


class PipelineError(Exception):
    """The pipeline cannot do what it was asked to."""


class LakeError(PipelineError):
    """A folder cannot be used as a lake."""


class PartError(PipelineError, ValueError):
    """The part of a lake that was named is impossible: a wrong date, hour or queue name."""


class ExportError(PipelineError, ValueError):
    """The outcome to export, or the file to export to, cannot be used."""


class PlotError(PipelineError, ValueError):
    """A picture cannot be made of this, or not in a file of this name."""
