"""What is wrong with a pipeline as its TOML file describes it.

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
        """Travel between processes, as what a worker raises does."""
        return type(self), (self.path, self.where, self.text)
