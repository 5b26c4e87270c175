"""Whether lifetimes are right: figures at their boundaries, and beside a count in plain Python."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mayfly.lifetime.life import LifeRecord, State
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.pipeline.bulk.schema import ledger_batch
from mayfly.pipeline.errors import LakeError
from mayfly.pipeline.lake.answers import analyze_lifetimes, ledger_report
from mayfly.pipeline.lake.delta import DeltaLake
from mayfly.pipeline.lake.lifetimes import (
    By,
    CapFigures,
    ConsumerFigures,
    DelayFigures,
    LifetimeAnalysis,
    LifetimeFigures,
    Verdict,
)
from mayfly.pipeline.lake.queries import part_between
from tests.bulk.books import START_MS, life
from tests.examples import examples
from tests.lake.made import varied_lake
from tests.spark.lakes import INSTANCE, balance, numbered, write_lake

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def lived(
    number: int,
    age_ms: int,
    lifetime_ms: int | None = None,
    outcome: State = State.GOT,
    *,
    delay_ms: int = 0,
    put_ms: int = START_MS,
    **changed: Any,
) -> LifeRecord:
    """The life of message ``number``, which was got, or met expired, at an age."""
    return life(
        number,
        outcome=outcome,
        put_ms=put_ms,
        deliver_at_ms=put_ms + delay_ms,
        expire_at_ms=None if lifetime_ms is None else put_ms + lifetime_ms,
        ended_ms=put_ms + age_ms,
        **changed,
    )


def expired(number: int, age_ms: int, lifetime_ms: int, **changed: Any) -> LifeRecord:
    """The life of a message that was met expired at an age, by a get unless said otherwise."""
    return lived(number, age_ms, lifetime_ms, State.EXPIRED, **{"detected_by": "get"} | changed)


def analyzed(folder: Path, lives: Sequence[LifeRecord], **asked: Any) -> LifetimeAnalysis:
    """Return the analysis of a new lake with some lives and a balance."""
    write_lake(folder / "lake", [*lives, balance("Q1", len(lives))])
    return analyze_lifetimes(folder / "lake", **asked)


def figures(folder: Path, lives: Sequence[LifeRecord], **asked: Any) -> LifetimeFigures:
    """Return the figures of the only group of some lives."""
    [group] = analyzed(folder, lives, **asked).lifetimes
    return group


def gets(age_ms: int = 1_000, count: int = 30, first: int = 1_000) -> list[LifeRecord]:
    """Messages that were got at one age, a day apart, with a lifetime of an hour."""
    return [
        lived(first + n, age_ms, HOUR_MS, put_ms=START_MS - (n + 2) * DAY_MS) for n in range(count)
    ]


# Counts and percentiles


def test_the_outcomes_lifetimes_and_lives_left_of_a_queue_are_counted(tmp_path: Path) -> None:
    lives = [
        lived(1, 10, 100),
        lived(2, 10, 200),
        lived(3, 10),
        expired(4, 60, 50, capped_by="CAPEXPRY(600) of QALIAS(A)"),
        lived(5, 10, 1_000, State.CLEARED),
    ]
    group = figures(tmp_path, lives)
    assert (group.manager, group.name, group.lives) == ("QM1", "Q1", 5)
    assert (group.got, group.expired, group.unlimited, group.expired_by_cap) == (3, 1, 1, 1)
    assert group.expired_share == 0.2
    assert group.lifetime_p50_ms == 150
    assert (group.left_p1_ms, group.left_p5_ms, group.left_p50_ms) == (91, 95, 140)
    assert (group.asked, group.asked_p50_ms) == (4, 10)


def test_the_staging_queue_is_no_group_of_its_own(tmp_path: Path) -> None:
    staged = life(1, STAGING_QUEUE, State.RELEASED)
    analysis = analyzed(tmp_path, [staged])
    assert (analysis.lifetimes, analysis.consumers) == ([], [])


@pytest.mark.parametrize(
    ("got_at_ms", "unserved"), [(99, 1), (100, 0), (101, 0), (199, 0), (200, 1), (201, 1)]
)
def test_an_expired_message_is_unserved_if_nothing_was_got_between_delivery_and_deadline(
    tmp_path: Path, got_at_ms: int, unserved: int
) -> None:
    """It could be got from 100 to 199 ms, and was met at 300 ms."""
    lives = [lived(1, got_at_ms), expired(2, 300, 200, delay_ms=100, detected_by="scan")]
    group = figures(tmp_path, lives)
    assert (group.unserved, group.unserved_hours) == (unserved, unserved)


def test_a_get_on_another_queue_or_queue_manager_serves_nobody(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write_lake(lake, [expired(1, 300, 200), lived(2, 150, queue="Q2")])
    file = lake / "date=2023-11-14" / "batch-other-1.parquet"
    pa.parquet.write_table(
        pa.Table.from_batches([ledger_batch(numbered([lived(1, 150)]), "QM2", "6" * 32)]), file
    )
    groups = {(g.manager, g.name): g.unserved for g in analyze_lifetimes(lake).lifetimes}
    assert groups == {("QM1", "Q1"): 1, ("QM1", "Q2"): 0, ("QM2", "Q1"): 0}


def test_hours_without_service_are_those_of_deadlines(tmp_path: Path) -> None:
    hour = START_MS - START_MS % HOUR_MS
    lives = [
        expired(n, DAY_MS, deadline_ms - hour, put_ms=hour)
        for n, deadline_ms in enumerate([hour + HOUR_MS - 1, hour + HOUR_MS, hour + HOUR_MS + 1])
    ]
    group = figures(tmp_path, lives)
    assert (group.unserved, group.unserved_hours) == (3, 2)


def test_of_expired_messages_met_in_one_millisecond_one_counts_as_asked_for(tmp_path: Path) -> None:
    """One get takes one message, a claim takes all; those met otherwise are not asked for."""
    lives = [
        *(expired(n, 300, 200) for n in (1, 2, 3)),
        *(expired(n, 301, 200, detected_by="claim") for n in (1, 2, 3)),
        *(
            expired(5 + n, 302, 200, detected_by=met)
            for n, met in enumerate(("scan", "browse", None))
        ),
    ]
    assert figures(tmp_path, lives).asked == 4


# The suggested lifetime


@pytest.mark.parametrize(
    ("age_ms", "suggested_ms"),
    [
        *((0, 1_000), (1, 2_000), (1_000, 2_000), (1_001, 3_000)),
        *((10_000, 11_000), (20_000, 22_000), (20_001, 23_000)),
    ],
)
def test_a_suggestion_has_a_margin_of_a_tenth_or_a_second_and_is_whole_seconds(
    tmp_path: Path, age_ms: int, suggested_ms: int
) -> None:
    assert figures(tmp_path, gets(age_ms)).suggested_ms == suggested_ms


@pytest.mark.parametrize(("count", "suggested_ms"), [(29, None), (30, 2_000)])
def test_with_fewer_than_30_gets_nothing_is_suggested(
    tmp_path: Path, count: int, suggested_ms: int | None
) -> None:
    group = figures(tmp_path, gets(count=count))
    assert group.suggested_ms == suggested_ms
    changed = (group.would_be_got, group.would_still_expire, group.not_known, group.got_lost)
    assert changed == ((None,) * 4 if suggested_ms is None else (0, 0, 0, 0))


@pytest.mark.parametrize(
    ("age_ms", "detected_by", "would"),
    [
        (1_999, "get", (1, 0, 0)),
        (2_000, "get", (0, 1, 0)),
        (2_001, "get", (0, 1, 0)),
        (1_999, "scan", (0, 0, 1)),
        (1_999, None, (0, 0, 1)),
        (2_000, "scan", (0, 1, 0)),
    ],
)
def test_an_expired_message_lives_if_a_get_met_it_within_the_suggested_lifetime(
    tmp_path: Path, age_ms: int, detected_by: str | None, would: tuple[int, int, int]
) -> None:
    """A life that a scan ended before is not known: its age is a lower bound of its wait."""
    lives = [*gets(1_000, 3_000), expired(1, age_ms, 500, detected_by=detected_by)]
    group = figures(tmp_path, lives)
    assert group.suggested_ms == 2_000
    assert (group.would_be_got, group.would_still_expire, group.not_known) == would


@pytest.mark.parametrize(
    ("age_ms", "lifetime_ms", "got_lost"),
    [(1_999, 9_000, 0), (2_000, 9_000, 1), (2_000, None, 1), (2_000, 2_000, 0), (2_000, 2_001, 1)],
)
def test_a_got_message_is_lost_if_only_a_longer_lifetime_than_suggested_let_it_be_got(
    tmp_path: Path, age_ms: int, lifetime_ms: int | None, got_lost: int
) -> None:
    """One that lived less before was committed after its deadline; the suggestion helps it."""
    group = figures(tmp_path, [*gets(1_000, 3_000), lived(1, age_ms, lifetime_ms)])
    assert (group.suggested_ms, group.got_lost) == (2_000, got_lost)


# A cap


@pytest.mark.parametrize(
    ("record", "changed"),
    [
        (lived(1, 400, 1_000), {}),
        (lived(1, 400, 1_001), {"shortened": 1}),
        (lived(1, 999, None), {"shortened": 1}),
        (lived(1, 1_000, None), {"shortened": 1, "got_lost": 1}),
        (lived(1, 1_000, 1_000), {}),
        (lived(1, 1_000, 1_001, delay_ms=1_000), {"shortened": 1, "got_lost": 1}),
        (lived(1, 1_001, 1_100, delay_ms=1_001), {"shortened": 1, "refused": 1}),
        (expired(1, 5_000, 1_000), {}),
        (
            expired(1, 5_000, 1_002),
            {"shortened": 1, "expired_earlier": 1, "freed_ms": 2, "freed_byte_ms": 200.0},
        ),
        (expired(1, 5_000, 1_200, delay_ms=1_001), {"shortened": 1, "refused": 1}),
        (lived(1, 5_000, 4_000, State.CLEARED), {"shortened": 1}),
    ],
)
def test_a_cap_shortens_longer_lifetimes_and_refuses_longer_delays(
    tmp_path: Path, record: LifeRecord, changed: dict[str, Any]
) -> None:
    expected = CapFigures(1_000, 0, 0, 0, 0, 0, 0.0, 0, 0)._replace(**changed)
    assert figures(tmp_path, [record], cap_ms=1_000).cap == expected


@pytest.mark.parametrize(
    ("age_ms", "lifetime_ms", "facts", "saved"),
    [
        (999, 500, {}, (1, 0)),
        (1_000, 500, {}, (0, 0)),
        (999, 500, {"detected_by": "scan"}, (0, 1)),
        (999, 500, {"capped_by": None}, (0, 0)),
    ],
)
def test_a_longer_cap_can_save_what_a_lower_cap_ended(
    tmp_path: Path,
    age_ms: int,
    lifetime_ms: int,
    facts: dict[str, Any],
    saved: tuple[int, int],
) -> None:
    record = expired(1, age_ms, lifetime_ms, **{"capped_by": "CAPEXPRY(5) of QLOCAL(Q1)"} | facts)
    cap = figures(tmp_path, [record], cap_ms=1_000).cap
    assert cap is not None
    assert (cap.would_be_got, cap.not_known, cap.shortened) == (*saved, 0)


# Delays and consumers


def test_late_delays_are_measured_from_the_delivery_time_to_release_and_get(tmp_path: Path) -> None:
    lives = [
        *(lived(n, 1_000 + late_ms, delay_ms=1_000) for n, late_ms in enumerate((0, 59, 60, 61))),
        expired(10, 3_000, 2_000, delay_ms=1_000),
        lived(11, 500),
        life(
            12,
            STAGING_QUEUE,
            State.RELEASED,
            put_ms=START_MS,
            deliver_at_ms=START_MS + 100,
            ended_ms=START_MS + 107,
        ),
    ]
    queue, staging = analyzed(tmp_path, lives, late_after_ms=60).delays
    assert queue.late_p95_ms == pytest.approx(60.85)
    assert queue._replace(late_p95_ms=0) == DelayFigures(
        "QM1", "Q1", 5, 4, 1, 1, 59.5, 0, 60.97, 61
    )
    assert staging == DelayFigures("QM1", STAGING_QUEUE, 1, 1, 0, 0, 7, 7, 7, 7)


def test_programs_that_get_are_told_apart_with_what_they_met_expired(tmp_path: Path) -> None:
    till: dict[str, Any] = {"ended_program": "till", "ended_by": "anna"}
    lives = [
        lived(1, 10, 30, **till),
        expired(2, HOUR_MS, 30, **till),
        lived(3, 10),
        expired(4, 70, 30, detected_by="scan"),
    ]
    nobody, anna = analyzed(tmp_path, lives).consumers
    assert anna == ConsumerFigures("QM1", "Q1", "till", "anna", 1, 1, 2, 20, 20, 20)
    assert nobody == ConsumerFigures("QM1", "Q1", "", "", 1, 0, 1, None, None, None)


# Groups and parts


@pytest.mark.parametrize(
    ("by", "names"),
    [
        (By.QUEUE, ["Q1", "Q2"]),
        (By.DATE, ["2023-11-14", "2023-11-15"]),
        (By.HOUR, ["2023-11-14T22", "2023-11-15T09"]),
        (By.HOUR_OF_DAY, ["09", "22"]),
        (By.APPLICATION, ["", "till"]),
        (By.PUTTER, ["anna", "tester"]),
    ],
)
def test_groups_are_named_and_in_order(tmp_path: Path, by: By, names: list[str]) -> None:
    later = START_MS + 11 * HOUR_MS
    lives = [
        lived(1, 10, ended_program="till"),
        lived(2, 10, put_ms=later, queue="Q2", user_identifier="anna"),
    ]
    groups = analyzed(tmp_path, lives, by=by).lifetimes
    assert [group.name for group in groups] == names
    assert {group.manager for group in groups} == ({"QM1"} if by is By.QUEUE else {""})


def test_a_part_without_lives_has_no_figures(tmp_path: Path) -> None:
    nothing = LifetimeAnalysis(By.QUEUE, [], [], [])
    write_lake(tmp_path / "lake", [lived(1, 10)])
    for part in (part_between("2023-12-01", None), part_between(None, None, ["NONE"])):
        assert analyze_lifetimes(tmp_path / "lake", part=part) == nothing
    with pytest.raises(LakeError, match="there is no lake at"):
        analyze_lifetimes(tmp_path / "nowhere")


def test_a_lake_of_delta_tables_has_the_same_answers(tmp_path: Path) -> None:
    lives = [
        *gets(1_000, 40),
        *(expired(n, 1_500 + n, 500, capped_by="CAPEXPRY(5) of QLOCAL(Q1)") for n in range(9)),
        lived(90, 9_000, delay_ms=5_000, ended_program="till", ended_by="anna"),
    ]
    rows = pa.Table.from_batches([ledger_batch(numbered(lives), "QM1", INSTANCE)])
    with closing(DeltaLake(tmp_path / "delta", INSTANCE)) as lake:
        lake.add(rows, len(lives))
    expected = analyzed(tmp_path, lives, cap_ms=2_000)
    assert expected.lifetimes[0].would_be_got == 9
    assert analyze_lifetimes(tmp_path / "delta", cap_ms=2_000) == expected


# Verdicts


@pytest.mark.parametrize(
    ("lives", "verdict"),
    [
        (gets(1_000, 29), Verdict.TOO_FEW),
        ([expired(n, 900, 500, detected_by="scan") for n in range(29)], Verdict.TOO_FEW),
        ([expired(n, 900, 500, detected_by="scan") for n in range(30)], Verdict.NOTHING_GOT),
        (gets(1_000), Verdict.TOO_LONG),
        ([*gets(1_000), *(expired(n, 1_200 + n, 500) for n in range(2))], Verdict.TOO_SHORT),
        ([*gets(1_000), expired(1, 900, 500, detected_by="scan")], Verdict.NOTHING_GOT),
        ([*gets(), expired(1, 900, 500, detected_by="scan"), lived(2, 400)], Verdict.NOT_ASKED_FOR),
        ([lived(n, 1_000) for n in range(30)], Verdict.UNLIMITED),
        ([lived(n, 1_000, 1_999) for n in range(30)], Verdict.TIGHT),
        ([lived(n, 1_000, 2_000) for n in range(30)], Verdict.FITS),
        ([lived(n, 1_000, 3_999) for n in range(30)], Verdict.FITS),
        ([lived(n, 1_000, 4_000) for n in range(30)], Verdict.TOO_LONG),
        ([lived(n, 1_000, 2_000) for n in range(999)] + [expired(999, 9, 8)], Verdict.FITS),
        ([lived(n, 1_000, 2_000) for n in range(998)] + [expired(999, 9, 8)], Verdict.TOO_SHORT),
    ],
)
def test_a_verdict_follows_from_the_figures(
    tmp_path: Path, lives: list[LifeRecord], verdict: Verdict
) -> None:
    assert figures(tmp_path, lives).verdict is verdict


# Beside a count in plain Python


class Kind(NamedTuple):
    """What some lives of a lake have in common; they are put at the same moment."""

    copies: int
    queue: str
    outcome: State
    detected_by: str | None
    put_ms: int
    delay_ms: int
    age_ms: int
    lifetime_ms: int | None
    is_capped: bool
    program: str | None


KINDS = st.builds(
    Kind,
    st.sampled_from([1, 1, 2, 15]),
    st.sampled_from(["Q1", "Q2"]),
    st.sampled_from([State.GOT, State.GOT, State.EXPIRED, State.EXPIRED, State.CLEARED]),
    st.sampled_from(["get", "get", "scan", "claim", None]),
    st.integers(0, 3).map(lambda n: n * 400 + n // 3 * HOUR_MS),
    st.sampled_from([0, 0, 1, 1_000]),
    st.integers(0, 4).map(lambda n: n * 500),
    st.sampled_from([None, 500, 1_000, 1_001, 1_500, 4_000]),
    st.booleans(),
    st.sampled_from([None, "till", "desk"]),
)


def lives_of(kinds: Sequence[Kind]) -> list[LifeRecord]:
    """Return the lives of some kinds; they end after their delivery, the expired past deadlines."""
    lives = []
    for kind in kinds:
        is_expired = kind.outcome is State.EXPIRED
        lifetime_ms = 500 if is_expired and kind.lifetime_ms is None else kind.lifetime_ms
        least_ms = max(kind.delay_ms, lifetime_ms or 0) if is_expired else kind.delay_ms
        record = lived(
            1,
            max(kind.age_ms, least_ms),
            lifetime_ms,
            kind.outcome,
            delay_ms=kind.delay_ms,
            put_ms=START_MS + kind.put_ms,
            queue=kind.queue,
            detected_by=kind.detected_by if is_expired else None,
            capped_by="CAPEXPRY(5) of QLOCAL(Q1)" if kind.is_capped else None,
            ended_program=kind.program,
        )
        lives += [record] * kind.copies
    return lives


def percentile(values: Sequence[int], rank: float) -> float | None:
    """Return a percentile, interpolated between two values; None of none."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = (len(ordered) - 1) * rank
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def is_asked(lives: Sequence[LifeRecord], n: int) -> bool:
    """Return True if a get or a claim came for a life: of those a get met, for the first."""
    one = lives[n]
    if one.outcome != "expired" or one.detected_by != "get":
        return one.outcome == "got" or one.detected_by == "claim"
    moment = (one.queue, one.ended_ms, one.outcome, one.detected_by)
    return not any(
        (other.queue, other.ended_ms, other.outcome, other.detected_by) == moment
        for other in lives[:n]
    )


def is_unserved(lives: Sequence[LifeRecord], one: LifeRecord) -> bool:
    """Return True if a life expired without a get on its queue in its window."""
    return one.outcome == "expired" and not any(
        one.deliver_at_ms <= other.ended_ms < (one.expire_at_ms or 0)
        for other in lives
        if (other.queue, other.outcome) == (one.queue, "got")
    )


NAMES: dict[By, Callable[[LifeRecord], str]] = {
    By.QUEUE: lambda record: record.queue,
    By.APPLICATION: lambda record: record.ended_program or "",
    By.HOUR_OF_DAY: lambda record: f"{record.deliver_at_ms % DAY_MS // HOUR_MS:02d}",
}


@settings(max_examples=examples(400), deadline=None)
@given(
    st.lists(KINDS, max_size=14), st.sampled_from([*NAMES]), st.sampled_from([500, 1_000, 2_000])
)
def test_figures_are_those_of_a_count_in_plain_python(
    kinds: list[Kind], by: By, cap_ms: int
) -> None:
    lives = lives_of(kinds)
    with tempfile.TemporaryDirectory() as folder:
        write_lake(Path(folder, "lake"), [*lives, balance("Q1", 0)])
        found = analyze_lifetimes(Path(folder, "lake"), by=by, cap_ms=cap_ms).lifetimes
    assert [group.name for group in found] == sorted({NAMES[by](record) for record in lives})
    for group in found:
        places = [n for n, record in enumerate(lives) if NAMES[by](record) == group.name]
        check_group(group, lives, places, cap_ms)


def check_group(
    group: LifetimeFigures, lives: Sequence[LifeRecord], places: Sequence[int], cap_ms: int
) -> None:
    """Compare the figures of a group, whose lives are at some places, with plain counts."""
    ages = {n: lives[n].ended_ms - lives[n].put_ms for n in places}
    limits = {n: (lives[n].expire_at_ms or math.inf) - lives[n].put_ms for n in places}
    got = [n for n in places if lives[n].outcome == "got"]
    gone = [n for n in places if lives[n].outcome == "expired"]
    asked = [n for n in places if is_asked(lives, n)]
    unserved = [n for n in gone if is_unserved(lives, lives[n])]
    assert (group.lives, group.got, group.expired) == (len(places), len(got), len(gone))
    assert group.unlimited == sum(limits[n] == math.inf for n in places)
    assert group.expired_by_cap == sum(lives[n].capped_by is not None for n in gone)
    assert (group.asked, group.unserved) == (len(asked), len(unserved))
    assert group.unserved_hours == len({(lives[n].expire_at_ms or 0) // HOUR_MS for n in unserved})
    limited = [n for n in places if limits[n] < math.inf]
    assert group.lifetime_p50_ms == percentile([int(limits[n]) for n in limited], 0.5)
    left = [int(limits[n]) - ages[n] for n in got if limits[n] < math.inf]
    lefts = (group.left_p1_ms, group.left_p5_ms, group.left_p50_ms)
    assert lefts == pytest.approx(tuple(percentile(left, rank) for rank in (0.01, 0.05, 0.5)))
    covered = percentile([ages[n] for n in asked], 0.999)
    assert group.asked_p99_9_ms == pytest.approx(covered)
    limit = group.suggested_ms
    if len(asked) < 30 or covered is None:
        assert limit is None
    else:
        assert limit is not None
        assert limit % 1_000 == 0
        # Rounded up: of the whole seconds the least that has the margin.
        assert limit - 1_000 - 1e-6 < covered + max(covered / 10, 1_000) < limit + 1e-6
        would = [n for n in gone if n in asked and ages[n] < limit]
        still = [n for n in gone if ages[n] >= limit]
        assert (group.would_be_got, group.would_still_expire) == (len(would), len(still))
        assert group.not_known == len(gone) - len(would) - len(still)
        assert group.got_lost == sum(ages[n] >= limit < limits[n] for n in got)
    assert group.cap == capped(lives, places, asked, cap_ms)


def capped(
    lives: Sequence[LifeRecord], places: Sequence[int], asked: Sequence[int], cap_ms: int
) -> CapFigures:
    """Return what a cap would have changed, life by life."""
    count = dict.fromkeys(CapFigures._fields[1:], 0)
    for n in places:
        record = lives[n]
        age_ms, delay_ms = record.ended_ms - record.put_ms, record.deliver_at_ms - record.put_ms
        lifetime_ms = (record.expire_at_ms or math.inf) - record.put_ms
        if lifetime_ms > cap_ms:
            count["shortened"] += 1
            if delay_ms > cap_ms:
                count["refused"] += 1
            elif record.outcome == "got":
                count["got_lost"] += age_ms >= cap_ms
            elif record.outcome == "expired":
                count["expired_earlier"] += 1
                count["freed_ms"] += int(lifetime_ms) - cap_ms
                count["freed_byte_ms"] += (int(lifetime_ms) - cap_ms) * record.body_bytes
        elif lifetime_ms < cap_ms and record.outcome == "expired" and record.capped_by:
            count["would_be_got" if n in asked else "not_known"] += age_ms < cap_ms
    return CapFigures(cap_ms, **count)


@pytest.mark.parametrize("by", By)
def test_each_life_is_in_one_group(tmp_path: Path, by: By) -> None:
    lake = varied_lake(tmp_path, 5)
    groups = analyze_lifetimes(lake, by=by).lifetimes
    lives = sum(row.lives for row in ledger_report(lake) if row.queue != STAGING_QUEUE)
    assert sum(group.lives for group in groups) == lives
