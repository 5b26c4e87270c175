"""A bound on bytes that all connections of a server have together."""

from __future__ import annotations


class Budget:
    """Bytes that may be taken and are given back; used by one thread."""

    def __init__(self, limit_bytes: int) -> None:
        """Begin with all of them."""
        self._limit = self._left = limit_bytes

    def take(self, count: int) -> bool:
        """Take some; False, and nothing taken, when there are not so many left."""
        if count > self._left:
            return False
        self._left -= count
        return True

    def give(self, count: int) -> None:
        """Give some back."""
        self._left += count

    @property
    def full(self) -> bool:
        """Whether less than an eighth is left, so that nobody should be asked for more."""
        return self._left * 8 < self._limit
