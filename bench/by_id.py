"""How long a get by an id takes among a million messages, and among many with the same one."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bench.figures import Figure, at_most, median, seconds_of
from bench.messaging import BODY
from mayfly import QueueManager
from mayfly.engine.finding.search import Match
from mayfly.engine.get import GetRequest
from mayfly.engine.handles import Handle
from mayfly.mqi.constants import MQGMO_SYNCPOINT, MQOO_INPUT_SHARED
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import token_of

_PER_UNIT, _LIFE_MS = 10_000, 60_000
_AIM_MS = 1.0
_SHARED = b"shared".ljust(24, b"\0")


class Size(NamedTuple):
    """How much is measured."""

    message_count: int = 1_000_000
    #: By each kind of id.
    gets: int = 1_000
    #: Of all, these have one CorrelId; every second of them has expired when they are got.
    alike: int = 20_000
    alike_gets: int = 9_000


#: What is measured unless something else is asked for.
USUAL: Final = Size()
#: Shows that this part runs; its figures say nothing.
SMALLEST: Final = Size(100, 5, 20, 5)


def figures(size: Size = USUAL) -> Iterator[Figure]:
    """Measure non-persistent messages in memory, then persistent ones in a folder."""
    yield from _figures(size, "non-persistent", None)
    with tempfile.TemporaryDirectory() as name:
        yield from _figures(size, "persistent", Path(name))


def _figures(size: Size, kind: str, folder: Path | None) -> Iterator[Figure]:
    clock = VirtualClock()
    with QueueManager("BENCH", folder, clock) as manager:
        manager.mqsc("DEFINE QLOCAL(Q1) MAXDEPTH(999999999)")
        by_name = _fill(size, manager, persistent=folder is not None)
        clock.advance(_LIFE_MS)
        with manager.session() as session:
            handle = session.open("Q1", MQOO_INPUT_SHARED)
            for name, matches in by_name.items():
                times_ms = _times_ms(handle, matches)
                yield _figure(
                    f"get by {name} of {size.message_count:,}, {kind}",
                    times_ms,
                    "in a unit of work",
                )
                session.commit()
            alike = [Match(correl_id=_SHARED)] * size.alike_gets
            times_ms = _times_ms(handle, alike)
            name = f"get by a CorrelId of {size.alike:,}, half expired, {kind}"
            note = "each discards one, with a sync" if folder else "each discards one"
            yield _figure(name, times_ms, f"{size.alike_gets:,} in a unit of work, {note}")


def _figure(name: str, times_ms: list[float], note: str) -> Figure:
    found = f"p99 {times_ms[len(times_ms) * 99 // 100]:.3g} ms, last {times_ms[-1]:.3g} ms"
    return at_most(name, median(times_ms), _AIM_MS, " ms", f"{found}; {note}")


def _fill(size: Size, manager: QueueManager, *, persistent: bool) -> dict[str, list[Match]]:
    """Put messages; return what finds some of them, in no order, by name of the id."""
    picked = set(random.Random(1).sample(range(size.message_count), 3 * size.gets))
    found: list[Match] = []
    every = size.message_count // size.alike
    with manager.session(transacted=True) as session:
        for number in range(size.message_count):
            is_alike = not number % every
            correl_id = _SHARED if is_alike else os.urandom(24)
            expires = is_alike and number // every % 2
            life_ms = _LIFE_MS if expires else None
            msg_id = session.put(
                "Q1",
                BODY,
                persistent=persistent,
                correl_id=correl_id,
                msg_id=os.urandom(24),
                time_to_live_ms=life_ms,
            )
            if number in picked and not is_alike:
                found.append(Match(msg_id=msg_id, correl_id=correl_id))
            if number % _PER_UNIT == _PER_UNIT - 1:
                session.commit()
        session.commit()
        tokens = [_token(manager, match) for match in found[2::3]]
    by_correl_id = [match._replace(msg_id=None) for match in found[::3]]
    by_msg_id = [match._replace(correl_id=None) for match in found[1::3]]
    return {"CorrelId": by_correl_id, "MsgId": by_msg_id, "token": tokens}


def _token(manager: QueueManager, match: Match) -> Match:
    with manager.session() as session:
        (message,) = session.browse("Q1", msg_id=match.msg_id)
        return Match(token=token_of(message))


def _times_ms(handle: Handle, matches: list[Match]) -> list[float]:
    """Return, ascending, how long each get takes."""
    return sorted(1e3 * seconds_of(_get(handle, match)) for match in matches)


def _get(handle: Handle, match: Match) -> Callable[[], object]:
    return lambda: handle.get(GetRequest(match), MQGMO_SYNCPOINT)
