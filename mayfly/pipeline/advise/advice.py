"""The advice for a listener port: problems of its setting, a safe setting, effects of both.

A port's transaction includes the wait of its receive and the program's on_message. If both together
reach the total transaction lifetime, the transaction is rolled back.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from mayfly.lifetime.columns import Ints
from mayfly.lifetime.times import SECOND_MS
from mayfly.pipeline.advise.arrivals import HOUR_MS, ArrivalSummary, QueueArrivals, summary_of
from mayfly.pipeline.advise.estimate import Estimate, estimate
from mayfly.pipeline.advise.processing_times import Durations
from mayfly.pipeline.advise.settings import (
    BOUNDS,
    AdviseError,
    ListenSettings,
    check_bounds,
    check_setting,
    duration_text,
    problems_of,
)
from mayfly.pipeline.advise.simulate import Simulated, simulate

#: Margin of the lifetime after the longest on_message: for the commit, and for a slow day.
MARGIN_MS = 1_000
#: Idle rollbacks an hour that each session may cost.
IDLE_PER_HOUR = 60
_UNLIMITED = (
    "no transaction times out (lifetime 0), so no receive timeout is unsafe; an on_message that "
    "hangs keeps its message for ever"
)


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
