"""Errors of a lake; ``pipeline/spark/errors.py`` has the pipeline's other errors."""

from __future__ import annotations


class PipelineError(Exception):
    """The base of errors of lakes, options and checkpoints."""


class LakeError(PipelineError):
    """A folder cannot be used as a lake."""


class PartError(PipelineError, ValueError):
    """A part of a lake is wrongly named: a wrong date, hour or queue name."""


class ExportError(PipelineError, ValueError):
    """The outcome to export, or the target file, cannot be used."""


class PlotError(PipelineError, ValueError):
    """No picture can be made, because there are no lives or the file name is wrong."""
