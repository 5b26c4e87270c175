"""Errors of a pipeline's TOML file, and of a batch with messages that fail.

Options and checkpoints that do not fit have errors of their own, in spark/errors.py.
"""

from mayfly.pipeline.spark import errors
from mayfly.verbs.contracts.files import ConfigurationError


class PipelineError(ConfigurationError):
    """A key of a pipeline's TOML file is unknown or missing, or has a value that cannot be used."""


class RowsBackedOut(errors.PipelineError):
    """Messages that made a batch fail were backed out; after a restart it runs without them."""
