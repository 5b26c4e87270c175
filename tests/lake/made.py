"""A lake of many kinds of lives, for comparing the engines that answer about it."""

from __future__ import annotations

from pathlib import Path
from random import Random

from mayfly.lifetime.life import OUTCOMES, LifeRecord, State
from mayfly.mqi import constants as c
from mayfly.mqi.delay_header import STAGING_QUEUE
from tests.bulk.books import START_MS, life
from tests.spark.lakes import balance, write_lake

_REPORTS = (0, c.MQRO_EXPIRATION, c.MQRO_COA | c.MQRO_COD, c.MQRO_EXCEPTION_WITH_DATA)
_QUEUES = ("Q1", "ORDERS.EU", "ORDERS.US", STAGING_QUEUE)
_TEXTS = ("", 'a "b", c', "line\nend", "Grüße")


def varied(number: int, rng: Random, within_ms: int) -> LifeRecord:
    """A life with any of the values that the answers depend on."""
    put_ms = START_MS + rng.randrange(within_ms)
    deliver_at_ms = put_ms + rng.choice((0, 0, 1, 5_000))
    ended_ms = deliver_at_ms + int(rng.lognormvariate(6, 3))
    queue = rng.choice(_QUEUES)
    outcomes = [State.RELEASED, State.EXPIRED] if queue == STAGING_QUEUE else OUTCOMES
    return life(
        number,
        queue,
        rng.choice(outcomes),
        put_ms=put_ms,
        deliver_at_ms=deliver_at_ms,
        ended_ms=ended_ms,
        expire_at_ms=rng.choice((None, ended_ms, ended_ms + 60_000)),
        correl_id=rng.choice((b"", number.to_bytes(24, "big"))),
        origin_id=rng.choice((None, bytes(24))),
        report=rng.choice(_REPORTS),
        reply_to_q=rng.choice(_TEXTS),
    )


def varied_lake(lake: Path, seed: int, *, within_ms: int = 60_000, lives: int = 300) -> Path:
    """Write a lake of two stores and three dates, with balances between the lives."""
    rng = Random(seed)
    first = 1
    for instance in ("5" * 32, "6" * 32):
        for date in ("2023-11-14", "2023-11-15", "2023-11-16"):
            entries = [varied(first + n, rng, within_ms) for n in range(lives // 6)]
            books = [balance(q, 60 + n, 10, got=40, expired=10 + n) for n, q in enumerate(_QUEUES)]
            write_lake(lake, [*entries, *books], first, instance, date=date)
            first += len(entries) + len(books)
        first = 1
    return lake


def small_lake(lake: Path) -> Path:
    """Write six lives of three minutes on two queues and on the staging queue."""
    lives = [
        life(1, "Q2", reply_to_q='a "b", c'),
        life(2, "Q1", State.EXPIRED, expire_at_ms=START_MS + 5, report=7),
        life(3, "Q1", ended_ms=START_MS + 3_000 + 120_000),
        life(4, "Q1", body_bytes=5_000),
        life(5, STAGING_QUEUE, State.RELEASED, deliver_at_ms=START_MS + 5_250),
    ]
    write_lake(lake, [*lives, balance("Q1", 3, got=2, expired=1)])
    write_lake(lake, [life(6, "Q2", ended_ms=START_MS + 180_000)], 7, date="2023-11-15")
    return lake
