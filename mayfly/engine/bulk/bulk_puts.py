"""Puts of many like messages at once: staged rows gathered by kind, for one statement each.

The options of a row are checked once for all rows of its kind, and columns are worked on whole.
A row that is not plain gets a put of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from mayfly.engine.bulk.staged_rows import Kind, StagedRows, ids_of, kind_of, special_rows
from mayfly.engine.core import Core
from mayfly.engine.descriptors import Prepared
from mayfly.engine.holding import reserve
from mayfly.engine.objects.registry import Path
from mayfly.lifetime.window import window_at_put
from mayfly.store.keys import generated_id, id_hash, optional_id_hash
from mayfly.store.units import RUN_SIZE_BITS, Bulk, Run

#: With fewer rows of a kind in a blob, a statement of their own costs more than it saves.
BULK_ROWS_MIN = 16
_NO_ID = bytes(24)
#: Lives as they are gathered: without end, and not for a put in bulk.
_UNLIMITED, _ALONE = -1, 0


class Identities(NamedTuple):
    """The ids of messages by column; hashes as JSON has them, ids 24 bytes each."""

    msg_hashes: list[int | str]
    correl_hashes: list[int | str]
    msg_ids: bytes
    correl_ids: bytes


class Slices(NamedTuple):
    """Data of messages one after the other, and where each stands in it, as store.units.Bulk."""

    slices: list[int]
    bodies: bytes


class Lane:
    """Rows of one kind that are put together; made and filled under the lock."""

    def __init__(self, path: Path, prepared: Prepared, largest_bytes: int, put_ms: int) -> None:
        """Begin with none; the path has been found open for them."""
        self.queue = path.queue
        self.version = path.version
        self.max_depth = path.max_depth
        self.largest_bytes = largest_bytes
        self.keys: list[int] = []
        #: The key of a message but for its sequence number.
        self.base_key = path.slots[prepared.order_priority]
        self._put_ms = put_ms
        self._cap_ms, self._capped_by = path.cap_ms, path.capped_by
        #: The lives that the cap has shortened.
        self._capped: set[int] = set()
        self._packed = prepared.packed
        self._deadlines: dict[int, int | str] = {}
        self._runs: list[Bulk] = []
        self._rows: list[str] = []
        self._bodies: list[bytes] = []
        self._size_bytes = 0
        self._msg_ids: list[bytes] = []
        self._correl_ids: list[bytes] = []

    def add(
        self, keys: list[int], ids: Identities, lives_ms: list[int], bodies: list[bytes]
    ) -> None:
        """Add messages by column: keys, ids, lives (-1 without end) and data."""
        sizes = list(map(len, bodies))
        starts = accumulate(sizes, initial=self._size_bytes)
        columns = (keys, self._deadlines_of(lives_ms), ids.msg_hashes, ids.correl_hashes)
        rows = zip(*columns, starts, sizes, strict=False)
        texts = [f"[{k},{x},{m},{c},{start},{size}]" for k, x, m, c, start, size in rows]
        if not self._capped.isdisjoint(lives_ms):
            texts = [
                f"{text[:-1]},1]" if life_ms in self._capped else text
                for text, life_ms in zip(texts, lives_ms, strict=True)
            ]
        self._rows.extend(texts)
        self._size_bytes += sum(sizes)
        self._bodies.extend(bodies)
        self._msg_ids.append(ids.msg_ids)
        self._correl_ids.append(ids.correl_ids)
        self._reserve(keys)

    def add_run(self, keys: list[int], msg_ids: bytes, life_ms: int, run: Slices) -> None:
        """Add messages of one life whose keys follow on, all with new MsgIds and no CorrelId."""
        [deadline] = self._deadlines_of([life_ms])
        expire_at_ms = deadline if isinstance(deadline, int) else None
        self._runs.append(
            Bulk(
                str(run.slices),
                len(keys),
                self._put_ms,
                self._packed,
                msg_ids,
                b"",
                run.bodies,
                Run(keys[0], None, expire_at_ms),
                self._capped_by if life_ms in self._capped else None,
            )
        )
        self._reserve(keys)

    def has_room(self, sizes: list[int]) -> bool:
        """Return True if the queue takes messages of all these sizes now (P7, P8)."""
        if self.queue.depth + len(sizes) > self.max_depth:
            return False
        return max(sizes) <= self.largest_bytes

    def bulks(self) -> list[Bulk]:
        """Return what the store is to insert."""
        if not self._rows:
            return self._runs
        gathered = Bulk(
            f"[{','.join(self._rows)}]",
            len(self._rows),
            self._put_ms,
            self._packed,
            b"".join(self._msg_ids),
            b"".join(self._correl_ids),
            b"".join(self._bodies),
            capped_by=self._capped_by if self._capped else None,
        )
        return [*self._runs, gathered]

    def _reserve(self, keys: list[int]) -> None:
        self.keys.extend(keys)
        reserve(self.queue, len(keys))

    def _deadlines_of(self, lives_ms: list[int]) -> list[int | str]:
        known = self._deadlines
        for life_ms in set(lives_ms) - known.keys():
            asked_ms = None if life_ms == _UNLIMITED else life_ms
            window = window_at_put(
                self._put_ms, asked_ms, 0, self._cap_ms, capped_by=self._capped_by
            )
            if window.capped_by is not None:
                self._capped.add(life_ms)
            known[life_ms] = "null" if window.expire_at_ms is None else window.expire_at_ms
        return [known[life_ms] for life_ms in lives_ms]


class BulkPuts:
    """The rows of one blob on their way into lanes."""

    def __init__(
        self, core: Core, rows: StagedRows, now_ms: int, new_lane: Callable[[Kind], Lane | None]
    ) -> None:
        """Look at the kinds of rows there are; ``new_lane`` gives None for what goes alone."""
        self._core = core
        self._rows = rows
        self._now_ms = now_ms
        self._new_lane = new_lane
        values, self._numbers = rows.kinds()
        self._kinds = [kind_of(given, core.name) for given in values]
        self._lanes: list[Lane | None] = [None] * len(values)
        self._lives_ms = self._lives_of(rows)
        special = special_rows(rows, now_ms)
        if _ALONE in self._lives_ms:
            special.update(n for n, life_ms in enumerate(self._lives_ms) if life_ms == _ALONE)
        counts = Counter(self._numbers)
        self._few = {n for n, count in counts.items() if count < BULK_ROWS_MIN}
        #: Rows that go alone, the last first, and the end of all.
        self._alone = [rows.row_count, *sorted(special | self._rows_of(self._few), reverse=True)]
        self._has_lanes = False
        self._goes_one_by_one = False
        self._has_ids = any(rows.column(name) is not None for name in ("msg_id", "correl_id"))
        #: Whether rows differ in nothing but their data.
        is_one_life = self._lives_ms.count(self._lives_ms[0]) == rows.row_count
        self._is_uniform = len(values) == 1 and is_one_life and not self._has_ids

    def kind(self, row: int) -> Kind:
        """Return what a row asks for beside its times and ids."""
        return self._kinds[self._numbers[row]]

    def add_from(self, first: int) -> int:
        """Add rows up to the first that must go alone; return which that is."""
        assert self._core.engine_lock.is_held()
        if not self._has_lanes:
            self._open_lanes()
        while self._alone[-1] < first:
            self._alone.pop()
        after = self._alone[-1]
        if not self._goes_one_by_one:
            if first == after or self._add(first, after):
                return after
            # A queue is nearly full, or a message too long: rows are put one by one, in order.
            self._goes_one_by_one = True
        while first < after and self._add(first, first + 1):
            first += 1
        return first

    def _open_lanes(self) -> None:
        self._has_lanes = True
        kinds = set(range(len(self._kinds))) - self._few
        closed = {number for number in kinds if self._lane(number) is None}
        if closed:
            self._alone = sorted({*self._alone, *self._rows_of(closed)}, reverse=True)

    def _rows_of(self, kinds: set[int]) -> set[int]:
        if not kinds:
            return set()
        return {row for row, number in enumerate(self._numbers) if number in kinds}

    def _add(self, first: int, after: int) -> bool:
        """Add all of some rows, or none and tell so."""
        if self._is_uniform:
            return self._add_run(first, after)
        by_kind: dict[int, list[int]] = {}
        for row, number in enumerate(self._numbers[first:after], first):
            by_kind.setdefault(number, []).append(row)
        data, edges = self._rows.bodies, self._rows.offsets
        lanes = [
            (self._lane(number), rows, [data[edges[row] : edges[row + 1]] for row in rows])
            for number, rows in by_kind.items()
        ]
        queued = Counter[int]()
        for lane, _, bodies in lanes:
            if lane is None or not lane.has_room(list(map(len, bodies))):
                return False
            queued[lane.queue.number] += len(bodies)
            if lane.queue.depth + queued[lane.queue.number] > lane.max_depth:
                return False
        sequence = self._core.store.sequence
        given = [sequence.next() for _ in range(first, after)]
        for lane, rows, bodies in lanes:
            assert lane is not None
            keys = [lane.base_key | given[row - first] for row in rows]
            lives_ms = [self._lives_ms[row] for row in rows]
            lane.add(keys, self._identities(rows, keys), lives_ms, bodies)
        return True

    def _add_run(self, first: int, after: int) -> bool:
        lane, edges = self._lane(0), self._rows.offsets[first : after + 1]
        sizes = [end - start for start, end in pairwise(edges)]
        if lane is None or not lane.has_room(sizes):
            return False
        sequence = self._core.store.sequence
        keys = [lane.base_key | sequence.next() for _ in sizes]
        starts = zip(edges, sizes, strict=False)
        slices = [start - edges[0] << RUN_SIZE_BITS | size for start, size in starts]
        run = Slices(slices, self._rows.bodies[edges[0] : edges[-1]])
        lane.add_run(keys, b"".join(self._generated(keys)), self._lives_ms[first], run)
        return True

    def _lane(self, number: int) -> Lane | None:
        lane = self._lanes[number]
        if lane is None or lane.version != self._core.registry.version:
            lane = self._lanes[number] = self._new_lane(self._kinds[number])
        return lane

    def _generated(self, keys: list[int]) -> list[bytes]:
        start = self._core.start_of_ids
        return [generated_id(start, key) for key in keys]

    def _identities(self, rows: list[int], keys: list[int]) -> Identities:
        msg_ids = self._generated(keys)
        hashes: list[int | str] = ["null"] * len(rows)
        if not self._has_ids:
            return Identities(hashes, ["null"] * len(rows), b"".join(msg_ids), b"")
        given = [ids_of(self._rows, row) for row in rows]
        for n, (msg_id, _) in enumerate(given):
            if msg_id:
                msg_ids[n], hashes[n] = msg_id, id_hash(msg_id)
        correl_ids = [correl_id for _, correl_id in given]
        return Identities(
            hashes,
            [_hash_text(correl_id) for correl_id in correl_ids],
            b"".join(msg_ids),
            b"".join([correl_id or _NO_ID for correl_id in correl_ids]),
        )

    def _lives_of(self, rows: StagedRows) -> list[int]:
        """Return the life of each row from now on."""
        asked, deadlines = rows.column("time_to_live_ms"), rows.column("expire_at_ms")
        if asked is None and deadlines is None:
            return [_UNLIMITED] * rows.row_count
        nothing: Sequence[None] = [None] * rows.row_count
        pairs = zip(asked or nothing, deadlines or nothing, strict=True)
        return [self._life_ms(life_ms, deadline_ms) for life_ms, deadline_ms in pairs]

    def _life_ms(self, life_ms: Any, deadline_ms: Any) -> int:
        if deadline_ms is not None:
            if life_ms is not None:
                return _ALONE
            life_ms = deadline_ms - self._now_ms
        if life_ms is None:
            return _UNLIMITED
        return int(life_ms) if 0 < life_ms <= self._core.settings.longest_life_ms else _ALONE


def _hash_text(correl_id: bytes) -> int | str:
    correl_hash = optional_id_hash(correl_id) if correl_id else None
    return "null" if correl_hash is None else correl_hash
