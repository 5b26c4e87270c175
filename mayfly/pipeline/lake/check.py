"""Proves a lake complete: each position once, put = ended + present at each balance.

A balance row has the counts of a queue up to its position. The lives in the lake up to there must
agree with it, outcome by outcome. So every prefix of the lake is proved, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import duckdb

from mayfly.lifetime.life import State
from mayfly.pipeline.lake.answers import VIEW, ledger_view, missing_files
from mayfly.pipeline.lake.queries import EVERYTHING, IS_BALANCE, IS_LIFE
from mayfly.verbs.contracts.outcomes import OTHER_OUTCOMES, OUTCOME_CODES

_OUTCOMES = (*OUTCOME_CODES, OTHER_OUTCOMES)
_LOST = _OUTCOMES.index(State.LOST_AT_RESTART)


class LakeProblem(NamedTuple):
    """A fault of a lake, and the first position that shows it.

    ``queue`` None concerns all queues.
    """

    store: str
    position: int
    queue: str | None
    text: str


@dataclass(frozen=True)
class LakeCheck:
    """The result of a check: rows read, balances compared, problems by position, missing files."""

    rows: int
    balances: int
    problems: tuple[LakeProblem, ...]
    missing_files: tuple[Path, ...]

    @property
    def texts(self) -> list[str]:
        """The problems as sentences, in the order in which to look at them."""
        gone = [f"{path} is missing" for path in self.missing_files]
        return gone + [problem.text for problem in self.problems]


def check_lake(lake_path: str | Path, *, until_position: int | None = None) -> LakeCheck:
    """Check whether a lake, or its rows up to ``until_position``, is complete.

    In each store every position must exist once, from the first one on. A life is a message's stay
    on one queue. At each balance of a queue, puts must be ended lives + present messages, and the
    ended ones must be in the lake. Only the difference to the first balance is compared in two
    cases: the lake begins later than the store because retention had trimmed it, or a queue was
    defined again. Lives lost at a restart are counted in a balance but not listed. Lives after the
    newest balance are not checked. Raises LakeError without a lake.
    """
    missing = tuple(missing_files(lake_path))
    with ledger_view(lake_path, EVERYTHING, is_complete=False) as connection:
        if connection is None:
            return LakeCheck(0, 0, (), missing)
        rows = VIEW if until_position is None else "prefix"
        if until_position is not None:
            connection.table(VIEW).filter(f"position <= {until_position}").create_view(rows)
        blocks = _blocks_of_positions(connection, rows)
        problems = [*_position_problems(connection, rows, blocks)]
        # A store that the lake has from its first row on.
        whole = {block.store for block in blocks if block.first == 1}
        problems += _balance_problems(_counted_balances(connection, rows), whole)
    return LakeCheck(
        sum(block.row_count for block in blocks),
        sum(block.balance_count for block in blocks),
        tuple(problems),
        missing,
    )


# Positions


class _Block(NamedTuple):
    """Rows of a store whose positions are close together."""

    store: str
    row_count: int
    balance_count: int
    position_count: int
    first: int
    last: int


#: Positions of a block; each has a bit in the set of those that exist.
_BLOCK_POSITIONS = 32_768


def _blocks_of_positions(connection: duckdb.DuckDBPyConnection, rows: str) -> list[_Block]:
    """Return all rows as blocks of 32,768 positions, by store and position, without empty blocks.

    ``rows`` is the name of the table or view with the rows.
    """
    place = f"(position - 1) % {_BLOCK_POSITIONS}"
    found = connection.sql(f"""
SELECT instance_id, count(*), count(*) FILTER ({IS_BALANCE}),
    bit_count(bitstring_agg({place}, 0, {_BLOCK_POSITIONS - 1})), min(position), max(position)
FROM {rows} GROUP BY instance_id, (position - 1) // {_BLOCK_POSITIONS} ORDER BY 1, 5""")
    return [_Block(*row) for row in found.fetchall()]


def _position_problems(
    connection: duckdb.DuckDBPyConnection, rows: str, blocks: Iterable[_Block]
) -> Iterator[LakeProblem]:
    """Yield missing and duplicate positions, within a block and between blocks.

    ``rows`` is the name of the table or view with the rows, ``blocks`` those of
    ``_blocks_of_positions``.
    """
    previous: _Block | None = None
    for block in blocks:
        store, first, last = block.store, block.first, block.last
        if previous is not None and previous.store == store:
            gap = range(previous.last + 1, first)
            if gap:
                text = f"store {store}: positions {gap[0]} to {gap[-1]} missing"
                yield LakeProblem(store, gap[0], None, text)
        doubled = block.row_count - block.position_count
        missing = last - first + 1 - block.position_count
        if doubled or missing:
            within = f"store {store}: positions {first} to {last}"
            first_doubled, first_missing = _first_wrong(connection, rows, block)
            if doubled:
                text = f"{within}: {doubled} rows too many, the first at {first_doubled}"
                yield LakeProblem(store, first_doubled, None, text)
            if missing:
                text = f"{within}: {missing} rows missing, the first at {first_missing}"
                yield LakeProblem(store, first_missing, None, text)
        previous = block


def _first_wrong(
    connection: duckdb.DuckDBPyConnection, rows: str, block: _Block
) -> tuple[int, int]:
    """Return (first duplicate position of a block, first missing one); -1 for none.

    ``rows`` is the name of the table or view with the rows.
    """
    of_block = connection.execute(
        f"SELECT position FROM {rows} "
        "WHERE instance_id = ? AND position BETWEEN ? AND ? ORDER BY position",
        [block.store, block.first, block.last],
    )
    found = [position for (position,) in of_block.fetchall()]
    there = set(found)
    doubled = next((one for one, other in pairwise(found) if one == other), -1)
    missing = next((n for n in range(block.first, block.last + 1) if n not in there), -1)
    return doubled, missing


# Balances


class _Balance(NamedTuple):
    """A balance: its own counts, and those of the lives listed since the balance before it.

    ``ended`` and ``listed`` are counts by outcome, in the order of _OUTCOMES.
    """

    store: str
    queue: str
    position: int
    puts: int
    present: int
    ended: tuple[int, ...]
    listed: tuple[int, ...]

    def is_below(self, earlier: _Balance) -> bool:
        """Return True if a count is less than before: the queue was deleted and defined again."""
        counts = zip((self.puts, *self.ended), (earlier.puts, *earlier.ended), strict=True)
        return any(now < before for now, before in counts)


#: Positions of a block whose lives are counted together.
_COUNTED_TOGETHER = 1_024


def _counted_balances(connection: duckdb.DuckDBPyConnection, rows: str) -> Iterator[_Balance]:
    """Yield all balances with the ended messages listed before each, by store, queue and position.

    ``rows`` is the name of the table or view with the rows.
    """
    known = ", ".join(f"'{code}'" for code in OUTCOME_CODES)
    is_of = {code: f"outcome = '{code}'" for code in OUTCOME_CODES}
    is_of[OTHER_OUTCOMES] = f"outcome NOT IN ({known})"
    # A version that knew fewer outcomes has not counted the others.
    ended = ", ".join(f"coalesce(ended.{name}, 0) AS ended_{name}" for name in _OUTCOMES)
    listed = ", ".join(f"count(*) FILTER ({is_of[name]}) AS {name}" for name in _OUTCOMES)
    sums = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in _OUTCOMES)
    counts = ", ".join(
        (
            *(f"ended_{name}" for name in _OUTCOMES),
            *(f"coalesce(listed.{name}, 0)" for name in _OUTCOMES),
        )
    )
    # A life counts for the first balance behind it. Lives of a block without a balance of their
    # queue have the same one: they are counted together, as few rows are sorted by the join.
    found = connection.sql(f"""
WITH balances AS (
    SELECT instance_id, queue, position, puts, present, {ended} FROM {rows} WHERE {IS_BALANCE}),
divided AS (
    SELECT DISTINCT instance_id, queue, position // {_COUNTED_TOGETHER} AS block FROM balances),
lives AS (
    SELECT instance_id, queue, position // {_COUNTED_TOGETHER} AS block, position, outcome
    FROM {rows} WHERE {IS_LIFE}),
counted AS (
    SELECT instance_id, queue, max(position) AS position, {listed}
    FROM lives LEFT JOIN (SELECT *, true AS is_divided FROM divided)
        USING (instance_id, queue, block)
    GROUP BY instance_id, queue, block, CASE WHEN is_divided THEN position END),
listed AS (
    SELECT b.instance_id, b.queue, b.position, {sums}
    FROM counted AS l ASOF JOIN balances AS b
        ON l.instance_id = b.instance_id AND l.queue = b.queue AND l.position < b.position
    GROUP BY b.instance_id, b.queue, b.position)
SELECT balances.instance_id, balances.queue, balances.position, puts, present, {counts}
FROM balances LEFT JOIN listed USING (instance_id, queue, position)
ORDER BY 1, 2, 3""")
    width = len(_OUTCOMES)
    while chunk := found.fetchmany(10_000):
        for row in chunk:
            yield _Balance._make((*row[: -2 * width], row[-2 * width : -width], row[-width:]))


def _balance_problems(balances: Iterable[_Balance], whole: set[str]) -> Iterator[LakeProblem]:
    """Yield what is wrong at the first wrong balance of each queue; later faults follow from it.

    ``whole`` are the stores that the lake has from their first row on.
    """
    for (store, _queue), of_queue in groupby(balances, lambda balance: balance[:2]):
        wrong = (_problems_at(*compared) for compared in _compared(of_queue, store in whole))
        yield from next(filter(None, wrong), ())


def _compared(
    balances: Iterable[_Balance], is_whole: bool
) -> Iterator[tuple[_Balance, list[int], list[int]]]:
    """Yield (balance, ended by its own count, ended by the lake's rows) for a queue's balances.

    Both counts are lists with a number for each outcome. They begin at the definition of the queue
    if ``is_whole``: the lake has all rows of the store. Else they begin at the first balance.
    """
    nothing = [0] * len(_OUTCOMES)
    previous: _Balance | None = None
    base, found = nothing, nothing
    for balance in balances:
        if previous is None and is_whole:
            found = list(balance.listed)
        elif previous is None or balance.is_below(previous):
            base, found = list(balance.ended), nothing
        else:
            found = [count + more for count, more in zip(found, balance.listed, strict=True)]
        ended = [count - before for count, before in zip(balance.ended, base, strict=True)]
        yield balance, ended, found
        previous = balance


def _problems_at(balance: _Balance, ended: list[int], found: list[int]) -> list[LakeProblem]:
    """Return what is wrong at a balance; the arguments are a triple that ``_compared`` yields."""
    store, queue, position = balance[:3]
    where = f"queue {queue} of store {store}"
    total = sum(balance.ended)
    texts = []
    if balance.puts != total + balance.present:
        texts.append(
            f"{where}: {balance.puts} put, but {total} ended and {balance.present} present at "
            f"position {position}"
        )
    for number, name in enumerate(_OUTCOMES):
        counted, listed = ended[number], found[number]
        if listed > counted if number == _LOST else listed != counted:
            texts.append(
                f"{where}: {counted} lives {name} by the balances up to position {position}, "
                f"{listed} in the lake"
            )
    return [LakeProblem(store, position, queue, text) for text in texts]
