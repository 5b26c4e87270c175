"""Errors of a lake; ``pipeline/spark/errors.py`` has the pipeline's other errors."""

from __future__ import annotations


class PipelineError(Exception):
    """The base of errors of lakes, options and checkpoints."""


class LakeError(PipelineError):
    """A folder is no lake, or a lake that cannot be read or continued."""


class LedgerInUse(LakeError):
    """Another process copies the same ledger into the lake, or the lake is read-only."""


class PartError(PipelineError, ValueError):
    """The name of a part of a lake is wrong: a date, an hour or a queue name."""


class ExportError(PipelineError, ValueError):
    """The outcome to export is unknown, or the target file cannot be written."""


class PlotError(PipelineError, ValueError):
    """No picture can be made: the lake has no ended messages, or the file's suffix is wrong."""
