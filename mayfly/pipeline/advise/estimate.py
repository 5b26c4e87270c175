"""Estimates the effects of a setting on transactions by a formula, without simulation.

While the port is idle, arrivals are taken as independent (Poisson) with rate r. N sessions wait.
The session that has waited longest takes the message and starts again, as does a session whose
receive is over. The ages a1 < … < aN of their transactions then have the density C exp(-r aN) on 0
< a1 < … < aN < timeout. It solves the balance of ageing, arrivals and timeouts for every N. So the
age of the transaction that takes a message is Erlang(N, r), cut off at the timeout. on_message does
not fit when that age is at least lifetime - on_message. Receives end empty at the density of that
age at the timeout. A message that is rolled back comes again, to another waiting session; with
several sessions that raises the rate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mayfly.lifetime.columns import Ints
from mayfly.pipeline.advise.arrivals import HOUR_MS, QueueArrivals
from mayfly.pipeline.advise.settings import ListenSettings

#: The number of sample times of on_message that represent all of them.
_QUANTILES = 200
#: Steps of the iteration: rate and rollbacks each follow from the other, and settle within these.
_STEPS = 20


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
