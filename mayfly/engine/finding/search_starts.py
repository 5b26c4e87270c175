"""Where a search by ids begins, so that a unit of work does not walk over what it has taken."""

from __future__ import annotations

from mayfly.runtime.weak import weakly_held

#: Hidden messages that one search walks over without a note.
MANY_HIDDEN = 32
#: Ids that are noted at a time, of one queue.
_MOST = 64
#: A side, a MsgId and a CorrelId; None is any.
Ids = tuple[int, bytes | None, bytes | None]


@weakly_held
class SearchStarts:
    """By ids a key: each message with these ids before it is hidden, and told of when seen again.

    It is all under the lock.
    """

    __slots__ = ("__weakref__", "_highest", "_keys")

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self._keys: dict[Ids, int] = {}
        self._highest = 0

    def of(self, ids: Ids, low: int) -> int:
        """Return where a search that would begin at ``low`` may begin."""
        return max(low, self._keys.get(ids, low))

    def note(self, ids: Ids, key: int) -> None:
        """Note that a search from the start of the queue has come to a key."""
        if len(self._keys) >= _MOST:
            self._keys.clear()
        self._keys[ids] = key
        self._highest = max(self._keys.values())

    def lower(self, key: int) -> None:
        """Note that a message has become visible at a key."""
        if key < self._highest:
            self._keys = {ids: start for ids, start in self._keys.items() if start <= key}
            self._highest = max(self._keys.values(), default=0)

    def lower_from(self, key: int) -> None:
        """Note that messages may have become visible from a key on."""
        self.lower(key)
