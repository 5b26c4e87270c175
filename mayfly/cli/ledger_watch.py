"""Watches a ledger run: its commits, and how far the ledger is ahead of the lake."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from mayfly.cli.show import note
from mayfly.pipeline.ledger_progress import LedgerProgress
from mayfly.runtime import SystemClock

if TYPE_CHECKING:
    from mayfly.pipeline.bulk.client import LedgerClient


class ProgressTarget(Protocol):
    """A file or a server that shows snapshots of a ledger run outside of this process."""

    def show(self, progress: LedgerProgress, *, is_up: bool) -> None:
        """Show a snapshot; ``is_up`` is True while the ledger is copied; may raise OSError."""


class LedgerWatch:
    """Counts the commits of a ledger run and shows them to its targets.

    An OSError of a target is said once on stderr, and stops nothing.
    """

    def __init__(
        self,
        begun: LedgerProgress,
        targets: Sequence[ProgressTarget],
        client: LedgerClient,
        print_batch: Callable[[int, int], None],
    ) -> None:
        """Begin with the snapshot ``begun``, which nothing shows yet.

        ``targets`` show each later one. ``client`` is asked for the end of the ledger.
        ``print_batch`` is called with the number and the row count of each commit.
        """
        self._progress = begun
        self._targets = targets
        self._client = client
        self._print_batch = print_batch
        self._clock = SystemClock()
        self._said: set[str] = set()

    def commit(self, batch: int, row_count: int, position: int) -> None:
        """Count a commit of rows that end at a position of the ledger; show and print it.

        ``batch`` is the number of the commit in this run.
        """
        self._progress = self._progress.with_commit(position, row_count, self._clock.now_ms())
        self._show(is_up=True)
        self._print_batch(batch, row_count)

    def look(self, position: int | None = None) -> None:
        """Ask for the end of the ledger, and show how far the lake is behind.

        ``position`` is that of the lake, None if it is not known. A server that does not answer is
        passed over: the copy itself says so.
        """
        from mayfly.pipeline.bulk.errors import BulkError

        if position is not None:
            self._progress = self._progress._replace(position=position)
        with contextlib.suppress(BulkError):
            end_position = self._client.info().last_position
            self._progress = self._progress._replace(end_position=end_position)
        self._show(is_up=True)

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Return a context at whose end the targets show that the ledger is not copied any more.

        An error of the block is passed on.
        """
        try:
            yield
        finally:
            self._show(is_up=False)

    def _show(self, *, is_up: bool) -> None:
        """Show the snapshot to all targets."""
        for target in self._targets:
            try:
                target.show(self._progress, is_up=is_up)
            except OSError as error:
                text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
                if text not in self._said:
                    self._said.add(text)
                    note(text)
