"""A listener that is walked through time millisecond by millisecond; shares no line with ours."""

from __future__ import annotations

from dataclasses import dataclass, field

from mayfly.pipeline.advise.settings import ListenSettings


@dataclass
class _Session:
    begin_ms: int = 0
    done_ms: int | None = None
    message: int = -1


@dataclass
class Walked:
    """The counts of a walk; see `mayfly.pipeline.advise.simulate.Simulated`."""

    idle_rollbacks: int = 0
    taken: int = 0
    committed: int = 0
    needless: int = 0
    overlong: int = 0
    requeued: int = 0
    expired: int = 0
    left: int = 0
    redeliveries: int = 0
    backouts: dict[int, int] = field(default_factory=dict)
    hit: set[int] = field(default_factory=set)


def walked(
    arrive_ms: list[int],
    expire_ms: list[int],
    work_ms: list[int],
    setting: ListenSettings,
    *,
    give_up_ms: int,
) -> Walked:
    """Return what becomes of messages that arrive in this order, the first at 0."""
    result = Walked()
    sessions = [_Session() for _ in range(setting.max_sessions)]
    waiting: list[int] = []
    life_ms, timeout_ms = setting.lifetime_ms, setting.timeout_ms
    now_ms = arrived = 0
    while True:
        for one in sessions:
            if one.done_ms == now_ms:
                _end(one, now_ms, work_ms, life_ms, result, waiting, give_up_ms)
        while arrived < len(arrive_ms) and arrive_ms[arrived] == now_ms:
            waiting.append(arrived)
            arrived += 1
        waiting.sort()
        while waiting and (free := [one for one in sessions if one.done_ms is None]):
            # Of equal ones the first.
            taker = min(free, key=lambda one: one.begin_ms)
            message = waiting.pop(0)
            backouts = result.backouts.get(message, 0)
            if expire_ms[message] <= now_ms:
                result.expired += 1
            elif setting.bothresh and backouts >= setting.bothresh:
                if life_ms and now_ms - taker.begin_ms >= life_ms:
                    waiting.insert(0, message)
                else:
                    result.requeued += 1
                taker.begin_ms = now_ms
            else:
                result.taken += 1
                result.redeliveries += backouts > 0
                taker.message, taker.done_ms = message, now_ms + work_ms[message]
        if any(one.done_ms == now_ms for one in sessions):
            continue
        if now_ms >= arrive_ms[-1] and all(one.done_ms is None for one in sessions):
            return result
        for one in sessions:
            if one.done_ms is None and now_ms - one.begin_ms == timeout_ms:
                result.idle_rollbacks += 1
                one.begin_ms = now_ms
        now_ms += 1


def _end(
    one: _Session,
    now_ms: int,
    work_ms: list[int],
    life_ms: int,
    result: Walked,
    waiting: list[int],
    give_up_ms: int,
) -> None:
    message, elapsed_ms = one.message, now_ms - one.begin_ms
    one.begin_ms, one.done_ms = now_ms, None
    if not life_ms or elapsed_ms < life_ms:
        result.committed += 1
        return
    result.backouts[message] = result.backouts.get(message, 0) + 1
    if work_ms[message] >= life_ms:
        result.overlong += 1
    else:
        result.needless += 1
        result.hit.add(message)
    if now_ms > give_up_ms:
        result.left += 1
    else:
        waiting.append(message)
