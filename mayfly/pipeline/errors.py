"""Errors of a pipeline's TOML file.

Options and checkpoints that do not fit have errors of their own, in mayfly/spark/errors.py.
"""

from mayfly.contracts.toml_tables import ConfigurationError


class PipelineError(ConfigurationError):
    """A key of a pipeline's file is unknown, missing, or has a value that cannot be used."""
