"""A browse that looks at groups: the message found stays, and the cursor stands on it."""

from __future__ import annotations

from mayfly.engine.browsing.browse import Cursor
from mayfly.engine.core import Core
from mayfly.engine.get import GetRequest
from mayfly.engine.groups.getter import GroupGetter, Where
from mayfly.engine.groups.index import GroupIndex
from mayfly.engine.groups.members import Entry
from mayfly.engine.objects.registry import Path
from mayfly.engine.queues import LocalQueue
from mayfly.engine.requester import Requester
from mayfly.engine.transaction import Transaction
from mayfly.verbs.messages import GetResult


class GroupBrowser(GroupGetter):
    """One browse by the rules of groups: it leaves what it finds, and the cursor stands there."""

    def __init__(
        self,
        core: Core,
        path: Path,
        request: GetRequest,
        cursor: Cursor,
        requester: Requester,
        *,
        index: GroupIndex,
        where: Where,
        locks: bool,
    ) -> None:
        """Prepare a browse of a handle's cursor; ``locks`` for MQGMO_LOCK."""
        super().__init__(core, path, request, None, requester, index=index, where=where)
        self.only_looks = True
        self._cursor = cursor
        self._locks = locks

    def deliver(
        self, queue: LocalQueue, parts: list[Entry], now_ms: int
    ) -> tuple[GetResult, Transaction | None] | None:
        """Show the message and let the cursor stand on it."""
        rows = [self._row(entry) for entry in parts]
        result, _whole = self.look_at(queue, parts, rows, now_ms)
        if not result.stays:
            self._cursor.move_to(parts[0].key)
            if self._locks:
                self.requester.lock((queue, rows[0], parts[0].persistence))
        return result, None
