"""Errors of a pipeline's TOML file.

Options and checkpoints that do not fit have errors of their own, in mayfly/spark/errors.py.
"""

from __future__ import annotations

from pathlib import Path


class PipelineError(ValueError):
    """A key of a pipeline's file is unknown, missing, or has a value that cannot be used."""

    def __init__(self, path: Path, where: str, text: str) -> None:
        """Say in ``text`` what is wrong in the table or key ``where`` of the file ``path``."""
        super().__init__(f"{path}: {where}: {text}" if where else f"{path}: {text}")
        self.path = path
        self.where = where
        self.text = text

    def __reduce__(self) -> tuple[type[PipelineError], tuple[Path, str, str]]:
        """Return the parts to pickle: an error of a worker travels between processes."""
        return type(self), (self.path, self.where, self.text)
