"""Pages of lists: ``limit`` and ``after`` in the query, ``next`` in the answer."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Annotated, TypeAlias, TypeVar

from msgspec import Meta

_T = TypeVar("_T")

#: The value of ``after`` for a list that is ordered by names.
AfterName: TypeAlias = Annotated[
    str, Meta(description="names behind this one: ``next`` of the page before")
]
#: The member of an answer that leads to the page behind it.
Next: TypeAlias = Annotated[
    str | None, Meta(description="the value of ``after`` for the next page, null at the end")
]


def page_by_name(found: Iterable[tuple[str, _T]], limit: int, after: str) -> tuple[list[_T], Next]:
    """Return so many of the values with names behind ``after``, and ``next``."""
    rest = ((name, value) for name, value in sorted(found, key=lambda one: one[0]) if name > after)
    page = list(islice(rest, limit + 1))
    following = page[limit - 1][0] if len(page) > limit else None
    return [value for _name, value in page[:limit]], following
