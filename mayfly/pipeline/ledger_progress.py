"""The progress of a run that copies a ledger into a lake: a snapshot after each commit."""

from __future__ import annotations

from typing import NamedTuple


class LedgerProgress(NamedTuple):
    """The state of a ledger run; the counts are since the program began.

    ``manager`` is the queue manager whose ledger is copied into ``lake``, a folder or a URL.
    ``position`` is the last position of the ledger that the lake contains, ``end_position`` the
    last one that the ledger has; each is None until it is known. ``committed_ms`` is the time of
    the last commit with rows, in ms since 1970, None before the first.
    """

    manager: str
    lake: str
    position: int | None = None
    end_position: int | None = None
    commits: int = 0
    rows: int = 0
    committed_ms: int | None = None

    @property
    def lag_rows(self) -> int | None:
        """Rows of the ledger that the lake lacks, None while one of the positions is unknown."""
        if self.position is None or self.end_position is None:
            return None
        return max(self.end_position - self.position, 0)

    def with_commit(self, position: int, row_count: int, now_ms: int) -> LedgerProgress:
        """Return the state after a commit of ``row_count`` rows that end at ``position``."""
        return self._replace(
            position=position,
            end_position=max(position, self.end_position or 0),
            commits=self.commits + 1,
            rows=self.rows + row_count,
            committed_ms=now_ms,
        )
