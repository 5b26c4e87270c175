"""Searches a queue: persistent and non-persistent rows in key order, without hidden ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from weakref import WeakSet

from mayfly.engine.core import Core
from mayfly.engine.delay.staging import of_given_id, shown
from mayfly.engine.marks import Unmarked
from mayfly.engine.queues import MANY_HIDDEN, PERSISTENT, VOLATILE, Found, LocalQueue, SearchStarts
from mayfly.engine.requester import Requester
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.store.keys import id_hash, key_of_delayed_id, key_of_token, staging_id
from mayfly.store.units import StoredMessage, stored_message
from mayfly.verbs.messages import message_token
from mayfly.verbs.properties.selectors.fields import SelectorFields
from mayfly.verbs.properties.selectors.selector import Selector, compile_selector

_FIRST_PAGE, _PAGE_GROWTH, _LARGEST_PAGE = 1, 8, 512
#: Bodies are read with their rows: pages of long ones have fewer.
_PAGE_BYTES = 1024 * 1024


class PageSize(NamedTuple):
    """How much one SQL statement reads: rows, and bytes of bodies after the first row."""

    rows: int
    body_bytes: int


class Match(NamedTuple):
    """The conditions of a get or browse; None means any (G2). Ids are complete, as stored.

    The caller evaluates ``selector`` (:func:`asker`), as that takes time. ``token`` is the MsgToken
    of one message; ``unmarked`` excludes messages that are marked for the browser (B7).
    """

    msg_id: bytes | None = None
    correl_id: bytes | None = None
    group_id: bytes | None = None
    msg_seq_number: int | None = None
    offset: int | None = None
    selector: Selector | None = None
    token: bytes | None = None
    unmarked: Unmarked | None = None

    def narrowed(self, selector: Selector) -> Match:
        """Return this match with a selector added.

        If the selector demands one MsgId or CorrelId, and this match has none, the result demands
        it too, so that an index is used.
        """
        return self._replace(
            msg_id=selector.msg_id if self.msg_id is None else self.msg_id,
            correl_id=selector.correl_id if self.correl_id is None else self.correl_id,
            selector=selector,
        )

    def accepts(self, row: StoredMessage) -> bool:
        """Return True if a row matches all conditions but the selector, which is not evaluated."""
        if self.msg_id is not None and row.msg_id != self.msg_id:
            return False
        if self.correl_id is not None and row.correl_id != self.correl_id:
            return False
        if self.token is not None and self.token != message_token(row.k, row.put_ms):
            return False
        if self.unmarked is not None and self.unmarked.hides(row):
            return False
        if self.group_id is None and self.msg_seq_number is None and self.offset is None:
            return True
        descriptor = unpack_descriptor(row.descriptor)
        group_id = descriptor.group_id.rstrip(b"\0")
        return (
            (self.group_id is None or self.group_id.rstrip(b"\0") == group_id)
            and (self.msg_seq_number in (None, descriptor.msg_seq_number))
            and (self.offset in (None, descriptor.offset))
        )


def asker(
    match: Match, core: Core, queue: LocalQueue, now_ms: int
) -> Callable[[StoredMessage], bool]:
    """Return a function that says whether the selector of ``match`` selects a row of the queue.

    On the staging queue the row is evaluated as applications see it.
    """
    assert match.selector is not None
    selects = match.selector.selects
    if queue.is_staging:
        return lambda row: selects(fields_of(shown(core, row), now_ms))
    return lambda row: selects(fields_of(row, now_ms))


def fields_of(row: StoredMessage, seen_ms: int) -> SelectorFields:
    """Return a row as the input of a selector, with the Expiry left at the time ``seen_ms``."""
    return SelectorFields(row, unpack_descriptor(row.descriptor), seen_ms)


ANY: Final = Match()
#: No message has an empty MsgId.
NOTHING = Match(msg_id=b"")


def selector_of(text: str | None) -> Selector | None:
    """Return the selector of a selection string, None for a blank one, which selects everything.

    Raises MQRC_SELECTOR_SYNTAX_ERROR, MQRC_SELECTION_STRING_ERROR, MQRC_SELECTOR_ALWAYS_FALSE.
    """
    return compile_selector(text) if text is not None and text.strip() else None


def in_order(
    core: Core,
    queue: LocalQueue,
    match: Match,
    low: int,
    requester: Requester | None = None,
    *,
    page: PageSize | None = None,
) -> Iterator[tuple[StoredMessage, int]]:
    """Yield (row, persistence) of the visible messages that match, from the key ``low`` on, by key.

    The selector is not evaluated. Messages that the ``requester`` has locked are visible to it
    alone. The engine lock is held while rows are taken; the caller may stop at any row. Rows are
    read in pages that grow from one row on; ``page`` sets a fixed size, for the match ANY only.
    """
    assert core.engine_lock.is_held()
    if queue.is_staging and not (match.msg_id is None and match.correl_id is None):
        return _shown_with(core, queue, match, low, requester)
    return _stored(queue, match, low, requester, page)


def _stored(
    queue: LocalQueue,
    match: Match,
    low: int,
    requester: Requester | None,
    page: PageSize | None = None,
) -> Iterator[tuple[StoredMessage, int]]:
    """Yield rows whose stored columns match, from the key ``low`` on, by key.

    The message that the ``requester`` has locked is one of them. ``page`` sets a fixed number of
    rows to read at once.
    """
    locked = None if requester is None else requester.locked
    by_persistence = [
        _matching_rows(queue, persistence, match, low)
        if page is None
        else _paged(queue, persistence, low, page)
        for persistence in (VOLATILE, PERSISTENT)
        if queue.present[persistence] or locked is not None
    ]
    if locked is not None:
        return merged(merged(*by_persistence), _locked(locked, match, low))
    if len(by_persistence) == len(queue.present):
        return merged(*by_persistence)
    return by_persistence[0] if by_persistence else iter(())


def _shown_with(
    core: Core, queue: LocalQueue, match: Match, low: int, requester: Requester | None
) -> Iterator[tuple[StoredMessage, int]]:
    """Yield messages of the staging queue that match by the ids which applications see there (D3).

    Messages with a damaged delay header match by the ids with which they were put. They come from
    the key ``low`` on, with the message that the ``requester`` has locked.
    """
    shown_id = match.msg_id
    stored_id = None if shown_id is None else staging_id(shown_id)
    delayed = _stored(queue, _as_delayed(core, match, stored_id), low, requester)
    damaged = _stored(queue, match._replace(msg_id=stored_id), low, requester)
    return merged(
        (f for f in delayed if f[0].target is not None and shown_id in (None, f[0].shown_id)),
        (f for f in damaged if f[0].target is None),
    )


def _as_delayed(core: Core, match: Match, stored_id: bytes | None) -> Match:
    """Translate a match on shown ids into a match on the stored columns of a delayed message.

    The CorrelId seen is the stored MsgId. A match that no message can meet becomes ``NOTHING``.
    """
    if match.msg_id is None or stored_id is None:
        return match._replace(msg_id=match.correl_id, correl_id=None)
    row = of_given_id(core, match.msg_id)
    if row is not None:
        token = message_token(row.k, row.put_ms)
        if match.token not in (None, token):
            return NOTHING
        return match._replace(msg_id=match.correl_id, correl_id=None, token=token)
    if match.correl_id not in (None, stored_id):
        return NOTHING
    return match._replace(msg_id=stored_id, correl_id=None)


def merged(
    one: Iterator[tuple[StoredMessage, int]], other: Iterator[tuple[StoredMessage, int]]
) -> Iterator[tuple[StoredMessage, int]]:
    """Merge two iterators in key order into one in key order."""
    a, b = next(one, None), next(other, None)
    while a is not None and b is not None:
        if a[0].k < b[0].k:
            yield a
            a = next(one, None)
        else:
            yield b
            b = next(other, None)
    while a is not None:
        yield a
        a = next(one, None)
    while b is not None:
        yield b
        b = next(other, None)


def _locked(found: Found, match: Match, low: int) -> Iterator[tuple[StoredMessage, int]]:
    """Yield the message that the requester has locked, if it still exists and matches."""
    queue, row, persistence = found
    now = queue.owner.messages(persistence).row(row.k)
    if now is not None and row.k >= low and match.accepts(now):
        yield now, persistence


def _paged(
    queue: LocalQueue, persistence: int, low: int, page: PageSize
) -> Iterator[tuple[StoredMessage, int]]:
    """Yield all visible rows with one persistence from key ``low`` on, by pages of one size."""
    queue_owner, ahead = queue.owner, queue.ahead[persistence]
    messages, hidden = queue_owner.messages(persistence), queue_owner.hidden
    low = max(low, queue.first[persistence])
    ahead.pass_over(queue.first[persistence])
    for row in ahead.rows_from(low, hidden):
        yield row, persistence
    ahead.is_read = True
    low, is_last = max(low, ahead.end), ahead.has_all
    while not is_last:
        rows, is_last = messages.page(low, queue.high, page.rows, page.body_bytes)
        for row in map(stored_message, rows):
            if row.k not in hidden:
                yield row, persistence
            low = row.k + 1


def _matching_rows(
    queue: LocalQueue, persistence: int, match: Match, low: int
) -> Iterator[tuple[StoredMessage, int]]:
    """Yield the visible rows with one persistence that match, from the key ``low`` on.

    Where many hidden messages precede the first match, the next search begins at that match.
    """
    hidden = queue.owner.hidden
    fetch = _fetcher(queue, persistence, match)
    is_any = match is ANY or match._replace(selector=None) == ANY
    first = queue.first[persistence]
    low = max(low, first)
    ids = persistence, match.msg_id, match.correl_id
    has_note = False
    if not (is_any or queue.is_staging) and _has_only_ids(match):
        start = first if queue.starts is None else queue.starts.of(ids, first)
        # From further on than that, what is before has not been looked at.
        has_note = low <= start
        low = max(low, start)
    hidden_count, size = 0, _FIRST_PAGE
    while True:
        rows = fetch(low, size)
        for row in rows:
            if row.k in hidden:
                hidden_count += 1
            elif is_any or match.accepts(row):
                if has_note and hidden_count > MANY_HIDDEN:
                    _starts_of(queue).note(ids, row.k)
                has_note = False
                yield row, persistence
        if len(rows) < size:
            if has_note and hidden_count > MANY_HIDDEN:
                _starts_of(queue).note(ids, rows[-1].k + 1 if rows else low)
            return
        low = rows[-1].k + 1
        size = _next_size(size, rows)


def _starts_of(queue: LocalQueue) -> SearchStarts:
    """Return the object that remembers where searches by id start on a queue; made at first use."""
    if queue.starts is None:
        queue.starts = SearchStarts()
        if queue.watchers is None:
            queue.watchers = WeakSet()
        queue.watchers.add(queue.starts)
    return queue.starts


def _has_only_ids(match: Match) -> bool:
    """Return True if a match has no conditions but ids and a selector."""
    return match._replace(msg_id=None, correl_id=None, selector=None) == ANY


def _next_size(size: int, rows: list[StoredMessage]) -> int:
    """Return the number of rows of the next page: eight times as many, fewer for long bodies."""
    row_bytes = 1 + sum([len(row.body) for row in rows]) // len(rows)
    return max(1, min(size * _PAGE_GROWTH, _LARGEST_PAGE, _PAGE_BYTES // row_bytes))


def _fetcher(
    queue: LocalQueue, persistence: int, match: Match
) -> Callable[[int, int], list[StoredMessage]]:
    """Return a function (low key, number of rows) that reads a page of rows by the ids of a match.

    It uses the index of MsgIds or CorrelIds; without an id it reads all rows in key order.
    """
    messages, high = queue.owner.messages(persistence), queue.high
    if match.token is not None:
        token_key = key_of_token(match.token)
        end = min(high, token_key + 1)
        return lambda low, size: messages.in_order(max(low, token_key), end, size)
    if match.msg_id is not None:
        msg_id = match.msg_id
        key = key_of_delayed_id(msg_id) if queue.is_staging else None
        if key is not None:
            staged_key = key
            return lambda low, size: messages.by_delayed_id(msg_id, staged_key, low, high, size)
        return lambda low, size: messages.by_msg_id(msg_id, low, high, size)
    if match.correl_id is not None:
        correl_hash = id_hash(match.correl_id)
        return lambda low, size: messages.by_correl_id(correl_hash, low, high, size)
    return lambda low, size: messages.in_order(low, high, size)
