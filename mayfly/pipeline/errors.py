"""Errors of the pipeline: of lakes, options, checkpoints and replays.

PipelineError
├── LakeError          a folder is no lake, or the lake of another stream
│   └── LedgerInUse    another process copies the same ledger into the lake
├── PartError          the name of a part of a lake is wrong
├── ExportError        what to export is unknown, or the file cannot be written
├── PlotError          no picture can be made
├── OptionError        an option of format("mayfly") is unknown, missing or has a bad value
└── CheckpointError    a checkpoint belongs to another query, store or lake
ReplayError            a trace or a setting is invalid
└── NoLives            a lake contains no ended messages to replay

Errors of the bulk plane are in ``bulk/errors.py``, those of a pipeline's file in ``config.py``.
"""

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


class OptionError(PipelineError, ValueError):
    """An option of ``format("mayfly")`` is unknown, missing or has a bad value."""


class CheckpointError(PipelineError):
    """A checkpoint belongs to another query, store or lake than the one it is used with."""


# Errors of a replay: invalid traces and settings


class ReplayError(ValueError):
    """A trace or a setting is invalid; the text names it and its value."""


class NoLives(ReplayError):
    """A lake contains no ended messages that can be replayed."""
