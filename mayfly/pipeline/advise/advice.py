"""The advice for a listener port: problems of its setting, a safe setting, effects of both.

A port's transaction includes the wait of its receive and the program's on_message. If both together
reach the total transaction lifetime, the transaction is rolled back.

The effects are estimated by a formula, without simulation. While the port is idle, arrivals are
taken as independent (Poisson) with rate r. N sessions wait. The session that has waited longest
takes the message and starts again, as does a session whose receive is over. The ages a1 < … < aN of
their transactions then have the density C exp(-r aN) on 0 < a1 < … < aN < timeout. It solves the
balance of ageing, arrivals and timeouts for every N. So the age of the transaction that takes a
message is Erlang(N, r), cut off at the timeout. on_message does not fit when that age is at least
lifetime - on_message. Receives end empty at the density of that age at the timeout. A message that
is rolled back comes again, to another waiting session; with several sessions that raises the rate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mayfly.lifetime.columns import Ints
from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.advise.settings import (
    BOUNDS,
    AdviseError,
    ListenSettings,
    check_bounds,
    check_setting,
    duration_text,
    problems_of,
)
from mayfly.pipeline.advise.simulate import (
    HOUR_MS,
    ArrivalSummary,
    Durations,
    QueueArrivals,
    Simulated,
    simulate,
    summary_of,
)

#: Margin of the lifetime after the longest on_message: for the commit, and for a slow day.
MARGIN_MS = 1_000
#: Idle rollbacks an hour that each session may cost.
IDLE_PER_HOUR = 60
_UNLIMITED = (
    "no transaction times out (lifetime 0), so no receive timeout is unsafe; an on_message that "
    "hangs keeps its message for ever"
)
#: The number of sample times of on_message that represent all of them.
_QUANTILES = 200
#: Steps of the iteration: rate and rollbacks each follow from the other, and settle within these.
_STEPS = 20


class Outlook(NamedTuple):
    """The effects of a setting: as the formula expects them, and as the simulation finds them."""

    estimate: Estimate
    simulated: Simulated


class Advice(NamedTuple):
    """Problems of the present setting, the recommended setting, and the reasons for it.

    ``arrivals``, ``before`` and ``after`` are None without recorded arrivals; ``before`` also
    without a present receive timeout.
    """

    present: ListenSettings
    longest_on_message_ms: int
    problems: list[str]
    recommended: ListenSettings
    reasons: list[str]
    arrivals: ArrivalSummary | None = None
    before: Outlook | None = None
    after: Outlook | None = None


def advise(
    present: ListenSettings,
    durations: Durations,
    arrivals: QueueArrivals | None = None,
    *,
    longest_on_message_ms: int | None = None,
    margin_ms: int = MARGIN_MS,
    idle_per_hour: int = IDLE_PER_HOUR,
    seed: int = 0,
) -> Advice:
    """Check a setting, recommend a safe one, and simulate both on recorded arrivals, if given.

    ``durations`` are the times that on_message takes. The simulation draws one for each message;
    ``seed`` makes the draw repeatable. ``longest_on_message_ms`` is the time to be safe for, None
    for the longest of ``durations``; it may not be shorter. ``margin_ms`` of the transaction
    lifetime must be left after the longest on_message. ``idle_per_hour`` is the number of receives
    without a message, each a rollback, that a session may have in an hour. Without ``arrivals``
    nothing is simulated. Raises AdviseError, which names the value, for an invalid value, and if no
    setting is safe.
    """
    check_setting(present)
    longest_ms = durations.longest_ms if longest_on_message_ms is None else longest_on_message_ms
    if longest_ms < durations.longest_ms:
        raise AdviseError(
            f"longest_on_message_ms is {longest_ms}, but one takes {durations.longest_ms}"
        )
    recommended, reasons = recommend(
        present, longest_ms, margin_ms=margin_ms, idle_per_hour=idle_per_hour
    )
    advice = Advice(present, longest_ms, problems_of(present, longest_ms), recommended, reasons)
    if arrivals is None:
        return advice
    on_message_ms = durations.drawn(len(arrivals.available_ms), seed)
    after = _outlook(arrivals, recommended, on_message_ms)
    before = None
    if present == recommended:
        before = after
    elif present.receive_timeout_ms is not None:
        before = _outlook(arrivals, present, on_message_ms)
    reasons = [
        *reasons,
        _tried(before, after),
        *_overload(recommended, after.estimate.busy_share),
    ]
    return advice._replace(
        reasons=reasons, arrivals=summary_of(arrivals), before=before, after=after
    )


def recommend(
    present: ListenSettings,
    longest_on_message_ms: int,
    *,
    margin_ms: int = MARGIN_MS,
    idle_per_hour: int = IDLE_PER_HOUR,
) -> tuple[ListenSettings, list[str]]:
    """Return (a safe setting, the reasons for it as sentences with their numbers).

    The receive timeout is transaction lifetime - ``longest_on_message_ms`` - ``margin_ms``. That is
    the longest safe one, and a shorter one only causes more rollbacks of receives without a
    message. If a session would have more than ``idle_per_hour`` of these an hour, the lifetime is
    raised. A present timeout that is safe and long enough is kept. Raises AdviseError for an
    invalid value, and if no setting is safe.
    """
    check_bounds(
        longest_on_message_ms=longest_on_message_ms,
        margin_ms=margin_ms,
        idle_per_hour=idle_per_hour,
    )
    shortest_ms = _shortest_ms(idle_per_hour)
    needed_ms = longest_on_message_ms + margin_ms
    room_ms = present.lifetime_ms - needed_ms
    if not present.lifetime_ms:
        return _without_lifetime(present, shortest_ms, idle_per_hour)
    if present.receive_timeout_ms is not None and (
        shortest_ms <= present.receive_timeout_ms <= room_ms
    ):
        return present, [_is_safe(present, longest_on_message_ms)]
    reasons, lifetime_ms = [], present.lifetime_ms
    if room_ms < shortest_ms:
        lifetime_ms = _raised_ms(needed_ms + shortest_ms)
        why = _too_short(present, longest_on_message_ms, room_ms, idle_per_hour)
        reasons.append(f"{why}: it is raised to {duration_text(lifetime_ms)}{_price(room_ms)}")
    elif present.receive_timeout_ms is not None and present.receive_timeout_ms < shortest_ms:
        reasons.append(f"it is safe, but {_too_often(shortest_ms, idle_per_hour)}")
    advised_ms = _rounded(lifetime_ms - needed_ms, shortest_ms)
    reasons.append(
        f"receive timeout {duration_text(advised_ms)} <= lifetime {duration_text(lifetime_ms)} - "
        f"longest on_message {duration_text(longest_on_message_ms)} - margin "
        f"{duration_text(margin_ms)}: longer is a "
        "risk, shorter only rolls back more empty transactions (at most "
        f"{HOUR_MS / advised_ms:,.1f} an hour in each session)"
    )
    chosen = present._replace(
        receive_timeout_ms=advised_ms, total_tran_lifetime_timeout_s=lifetime_ms // SECOND_MS
    )
    check_setting(chosen)
    return chosen, reasons


def _without_lifetime(
    present: ListenSettings, shortest_ms: int, idle_per_hour: int
) -> tuple[ListenSettings, list[str]]:
    """Return (setting, reasons) for a port whose transactions never time out.

    A missing receive timeout, or one below ``shortest_ms``, becomes ``shortest_ms``.
    ``idle_per_hour`` is the allowed number of empty receives; it only stands in the text.
    """
    if present.receive_timeout_ms is not None and present.timeout_ms >= shortest_ms:
        return present, [_UNLIMITED]
    chosen = present._replace(receive_timeout_ms=shortest_ms)
    return chosen, [_UNLIMITED, _too_often(shortest_ms, idle_per_hour)]


def _tried(before: Outlook | None, after: Outlook) -> str:
    """Return the results of the simulations of both settings as a sentence for the user.

    ``before`` None, or the same as ``after``, leaves its part out.
    """
    found = after.simulated
    said = (
        f"tried on {found.messages:,} messages: {found.needless:,} of {found.taken:,} transactions "
        "with a message are rolled back needlessly"
    )
    if before is None or before is after:
        return said
    return f"{said}; as set now {before.simulated.needless:,} of {before.simulated.taken:,}"


def _overload(setting: ListenSettings, busy_share: float) -> list[str]:
    """Return a warning if the sessions have too little time for the work, else [].

    ``busy_share`` is work divided by the time of the sessions. No timeout changes that.
    """
    if busy_share < 1:
        return []
    needed = math.floor(busy_share * setting.max_sessions) + 1
    overload = (
        f"there is {busy_share:.2f} times the work that the sessions have time for, so messages "
        f"wait longer and longer: at least {needed} sessions are needed"
    )
    return [overload]


def _raised_ms(needed_ms: int) -> int:
    """Return ``needed_ms`` rounded up to whole seconds; raises AdviseError above the maximum."""
    seconds = -(-needed_ms // SECOND_MS)
    _, most = BOUNDS["total_tran_lifetime_timeout_s"]
    if seconds > most:
        raise AdviseError(
            f"no setting is safe: on_message, margin and receive together need a lifetime of "
            f"{seconds} s, and it is at most {most} s"
        )
    return seconds * SECOND_MS


def _too_short(
    present: ListenSettings, longest_on_message_ms: int, room_ms: int, idle_per_hour: int
) -> str:
    """Return the sentence that says why the present transaction lifetime cannot be kept.

    ``room_ms`` is the receive timeout that this lifetime allows; below 0 it allows none.
    ``idle_per_hour`` is the allowed number of receives without a message.
    """
    lifetime = duration_text(present.lifetime_ms)
    if longest_on_message_ms >= present.lifetime_ms:
        return (
            f"no receive timeout is safe with a lifetime of {lifetime}, as the longest on_message "
            f"takes {duration_text(longest_on_message_ms)}"
        )
    too_often = _too_often(_shortest_ms(idle_per_hour), idle_per_hour)
    left = duration_text(max(room_ms, 0))
    return f"a lifetime of {lifetime} leaves {left} for the receive, and {too_often}"


def _too_often(shortest_ms: int, idle_per_hour: int) -> str:
    """Return the sentence that says why a receive timeout below ``shortest_ms`` is not advised.

    Below it a session could have more than ``idle_per_hour`` receives without a message in an hour.
    """
    return (
        f"below {duration_text(shortest_ms)} a session can roll back more than {idle_per_hour:,} "
        "times an hour for nothing"
    )


def _shortest_ms(idle_per_hour: int) -> int:
    """Return the shortest receive timeout in ms with at most ``idle_per_hour`` empty receives."""
    return -(-HOUR_MS // idle_per_hour)


def _price(room_ms: int) -> str:
    """Return the cost of a raised lifetime in words, and the alternative if there is one.

    ``room_ms`` is the receive timeout that the present lifetime allows.
    """
    price = ", and a transaction that hangs is found that much later"
    if room_ms <= 0:
        return price
    allowed = -(-HOUR_MS // room_ms)
    return f"{price}; it could stay where {allowed:,} idle rollbacks an hour are allowed"


def _is_safe(present: ListenSettings, longest_on_message_ms: int) -> str:
    """Return the sentence that says why the present setting is safe and kept.

    ``longest_on_message_ms`` is the time for which it is safe.
    """
    left_ms = present.lifetime_ms - present.timeout_ms - longest_on_message_ms
    return (
        f"it is safe: after a receive of {duration_text(present.timeout_ms)} and an on_message of "
        f"{duration_text(longest_on_message_ms)}, {duration_text(left_ms)} of the lifetime are left"
    )


def _rounded(timeout_ms: int, shortest_ms: int) -> int:
    """Return a timeout in ms rounded down to whole seconds, if not below ``shortest_ms``.

    Otherwise the timeout is returned unchanged.
    """
    whole_ms = timeout_ms // SECOND_MS * SECOND_MS
    return whole_ms if whole_ms >= shortest_ms else timeout_ms


def _outlook(arrivals: QueueArrivals, setting: ListenSettings, on_message_ms: Ints) -> Outlook:
    """Return the effects of a setting: the estimate by formula, and the simulation.

    ``on_message_ms`` has the duration of on_message for each message of ``arrivals``.
    """
    return Outlook(
        estimate(arrivals, setting, on_message_ms), simulate(arrivals, setting, on_message_ms)
    )


class Estimate(NamedTuple):
    """The expected effects of a setting.

    ``waited_share`` of the messages find a session waiting. ``hit_share`` is the share of messages
    that are needlessly rolled back when first taken. ``busy_share`` is work divided by the time of
    the sessions: above 1 there is more work than they can do.
    """

    hit_share: float
    idle_rollbacks_per_hour: float
    waited_share: float
    busy_share: float


def estimate(arrivals: QueueArrivals, setting: ListenSettings, on_message_ms: Ints) -> Estimate:
    """Return the effects of a setting on recorded arrivals, as a formula expects them.

    ``on_message_ms`` has the duration of on_message for each message. The estimate assumes
    independent arrivals. It is right for one session under any load. For several it is right if
    on_message is short compared with the gaps and few messages are rolled back. Bursts count as
    arrivals during work; for several sessions that is a rough guess. If the port is never idle, all
    fields but ``busy_share`` are 0.
    """
    idle_ms = _idle_periods(arrivals.available_ms, on_message_ms / setting.max_sessions)
    span_ms, count = arrivals.span_ms, len(arrivals.available_ms)
    busy_share = float(on_message_ms[:-1].sum()) / span_ms / setting.max_sessions if span_ms else 0
    total_idle_ms = float(idle_ms.sum())
    if not total_idle_ms:
        return Estimate(0.0, 0.0, 0.0, busy_share)
    waited_share = len(idle_ms) / count
    rate, hit_share = _settled(setting, len(idle_ms) / total_idle_ms, on_message_ms)
    per_ms = timeouts_per_ms(setting.max_sessions, rate, setting.timeout_ms)
    return Estimate(
        waited_share * hit_share,
        per_ms * HOUR_MS * total_idle_ms / span_ms,
        waited_share,
        busy_share,
    )


def late_share(sessions: int, rate: float, from_ms: int, timeout_ms: int) -> float:
    """Return the share, 0 to 1, of messages to waiting sessions that come ``from_ms`` or later.

    Times count from the begin of the session's transaction. ``sessions`` is the number of sessions,
    ``rate`` the number of arrivals per ms, and ``timeout_ms`` the receive timeout. The share is 0
    if ``from_ms`` is not below the timeout, and 1 for ``from_ms`` <= 0.
    """
    if from_ms >= timeout_ms:
        return 0.0
    if from_ms <= 0:
        return 1.0
    earlier = _log_erlang(sessions, rate * from_ms) - _log_erlang(sessions, rate * timeout_ms)
    return -math.expm1(min(earlier, 0.0))


def timeouts_per_ms(sessions: int, rate: float, timeout_ms: int) -> float:
    """Return how many receives of all sessions end without a message, as a number per ms.

    ``rate`` is in arrivals per ms, ``timeout_ms`` the receive timeout.
    """
    mean = rate * timeout_ms
    at_end = (sessions - 1) * math.log(mean) - mean - math.lgamma(sessions)
    return rate * math.exp(at_end - _log_erlang(sessions, mean))


def _settled(
    setting: ListenSettings, arrival_rate: float, on_message_ms: Ints
) -> tuple[float, float]:
    """Return (the rate per ms at which waiting sessions get messages, the share rolled back).

    ``arrival_rate`` is in new messages per ms while the port is idle. Rolled-back messages come
    again and raise the rate, so both results are computed by iteration.
    """
    rate = arrival_rate
    hit_share = _hit_share(setting, rate, on_message_ms)
    # The only session takes its message back at once: it has not begun to wait.
    if setting.max_sessions > 1:
        for _ in range(_STEPS):
            rate = (rate + arrival_rate * (1 + hit_share)) / 2
            hit_share = _hit_share(setting, rate, on_message_ms)
    return rate, hit_share


def _hit_share(setting: ListenSettings, rate: float, on_message_ms: Ints) -> float:
    """Return the share, 0 to 1, of messages to waiting sessions that are rolled back needlessly.

    ``rate`` is in messages per ms. The share is 0 without a transaction lifetime.
    """
    if not setting.lifetime_ms:
        return 0.0
    steps = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    times_ms, weights = np.unique(
        np.quantile(on_message_ms, steps, method="inverted_cdf"), return_counts=True
    )
    shares = [
        late_share(
            setting.max_sessions, rate, setting.lifetime_ms - int(time_ms), setting.timeout_ms
        )
        if time_ms < setting.lifetime_ms
        else 0.0  # on_message never fits, whatever the receive timeout.
        for time_ms in times_ms
    ]
    return float(np.average(shares, weights=weights))


def _idle_periods(available_ms: Ints, service_ms: np.typing.NDArray[np.float64]) -> Ints:
    """Return the times in ms, above 0, for which a port is idle before an arrival.

    ``available_ms`` are the arrivals in order, ``service_ms`` the work for each. The port serves
    one message at a time.
    """
    done_before_ms = np.concatenate([[0.0], np.cumsum(service_ms)[:-1]])
    # The end of message i is the latest start of a busy period before it, and the work since.
    free_ms = np.maximum.accumulate(available_ms - done_before_ms) + np.cumsum(service_ms)
    idle_ms: Ints = available_ms[1:] - free_ms[:-1]
    return idle_ms[idle_ms > 0]


def _log_erlang(count: int, mean: float) -> float:
    """Return the logarithm of P(Poisson(mean) >= count), which is P(Erlang(count, 1) <= mean)."""
    if mean > 2 * count + 100:
        return 0.0
    term, total, number = 1.0, 1.0, count
    while term > 1e-17 * total:
        number += 1
        term *= mean / number
        total += term
    return count * math.log(mean) - mean - math.lgamma(count + 1) + math.log(total)
