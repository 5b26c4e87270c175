"""A lake as a place where stories find lives that retention has removed from the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mayfly.engine import ArchiveError
from mayfly.lifetime.life import LifeRecord
from mayfly.pipeline.lake.errors import LakeError


class LakeArchive:
    """See ``mayfly.engine.Archive``; the folder need not be there before the first question."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of a lake, which ``mayfly ledger run`` fills."""
        self._folder = folder
        self.name = f"lake {folder}"

    def lives(self, identifiers: Sequence[bytes], limit: int) -> list[tuple[str, LifeRecord]]:
        """Return lives with one of the ids, the latest first, each with its queue manager."""
        try:
            # It takes a tenth of a second, and few stories are asked for.
            from mayfly.pipeline.lake.lives import lives_with_ids

            return lives_with_ids(self._folder, identifiers, limit)
        except ModuleNotFoundError as error:
            raise ArchiveError(f"{error.name} is missing: pip install 'mayfly-mq[lake]'") from error
        except (LakeError, OSError) as error:
            raise ArchiveError(str(error)) from error
