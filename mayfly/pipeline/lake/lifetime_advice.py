"""Advice on lifetimes in sentences, each from the figures of one group, queue or consumer.

A sentence says what has happened, or what would have; where the ledger cannot tell, it says so.
"""

from __future__ import annotations

from mayfly.lifetime.times import spelled_duration
from mayfly.pipeline.lake.lifetime_queries import GETS_MIN
from mayfly.pipeline.lake.lifetimes import (
    CapFigures,
    ConsumerFigures,
    DelayFigures,
    LifetimeFigures,
    Verdict,
)

#: A percentile of 99.9 of fewer values than this is hardly more than the largest of them.
_GETS_ENOUGH = 1_000


def lifetime_advice(figures: LifetimeFigures) -> list[str]:
    """Return sentences on the lifetimes of a group of messages: what happened, then what to do."""
    said = [_shares(figures)]
    if figures.unserved:
        said.append(_unserved(figures))
    if figures.suggested_ms is None:
        said.append(f"{_counted(figures.asked, 'get')}: {GETS_MIN} are needed for a suggestion.")
    else:
        said.append(_suggestion(figures, spelled(figures.suggested_ms)))
        if figures.asked < _GETS_ENOUGH:
            said.append(f"Only {figures.asked:,} gets stand behind this.")
    if figures.expired_by_cap:
        said.append(
            f"A CAPEXPRY had shortened the lifetime of {figures.expired_by_cap:,} of the expired: "
            f"a longer one at the put does not help them."
        )
    return said


def cap_advice(cap: CapFigures) -> str:
    """Return a sentence on what an expiry cap (CAPEXPRY) would have changed for some messages."""
    changed = [
        (cap.got_lost, f"{cap.got_lost:,} that were got would have expired"),
        (cap.refused, f"{cap.refused:,} puts would have been refused (delay longer than the cap)"),
        (cap.expired_earlier, _earlier(cap)),
        (cap.would_be_got, f"at most {cap.would_be_got:,} ended by a lower cap would be got"),
        (cap.not_known, f"of {cap.not_known:,} ended by a lower cap the ledger cannot say it"),
    ]
    said = [what for count, what in changed if count]
    return f"With a cap of {spelled(cap.cap_ms)}: {_listed(said) if said else 'nothing changes'}."


def delay_advice(figures: DelayFigures, late_after_ms: int) -> str:
    """Return a sentence on how late the delayed messages of a queue were.

    ``late_after_ms`` is the limit by which ``figures.late`` were counted.
    """
    expired = f"; {figures.expired:,} expired first" if figures.expired else ""
    if figures.late_p50_ms is None or figures.late_p99_ms is None:
        return f"None of {figures.lives:,} was delivered{expired}."
    late = "none was" if not figures.late else f"{figures.late:,} were"
    return (
        f"Half of {figures.delivered:,} came at most {spelled(figures.late_p50_ms)} after their "
        f"delivery time, 99 of 100 at most {spelled(figures.late_p99_ms)}; {late} late by more "
        f"than {spelled(late_after_ms)}{expired}."
    )


def consumer_advice(figures: ConsumerFigures) -> str | None:
    """Return a sentence on a program that came too late for messages, None if it never did."""
    if not figures.met_expired:
        return None
    asked = figures.got + figures.met_expired
    return (
        f"{_share(figures.met_expired, asked)} of the {asked:,} messages that its gets met had "
        f"expired before."
    )


def spelled(duration_ms: float | None) -> str:
    """Return a duration in ms as text, with ``-`` before one below 0; "-" for None.

    It is rounded to whole ms. The lifetime left at a get is below 0 if the get was committed after
    the deadline.
    """
    if duration_ms is None:
        return "-"
    return ("-" if duration_ms < 0 else "") + spelled_duration(round(abs(duration_ms)))


def _shares(figures: LifetimeFigures) -> str:
    """Return the sentence on the share expired, and on the lifetime left at the gets."""
    if figures.expired:
        said = f"{_share(figures.expired, figures.lives)} of {figures.lives:,} expire"
    else:
        said = f"none of {figures.lives:,} expires"
    if figures.left_p50_ms is None:
        return f"{said}."
    return f"{said}; half of those that are got have at most {spelled(figures.left_p50_ms)} left."


def _unserved(figures: LifetimeFigures) -> str:
    """Return the sentence on messages that expired while nothing was got from their queue."""
    advice = ": look at the consumer first" if figures.verdict is Verdict.NOTHING_GOT else ""
    return (
        f"As long as {figures.unserved:,} of the {figures.expired:,} could be got, nothing was got "
        f"from their queue; their deadlines are in {_counted(figures.unserved_hours, 'hour')} of "
        f"the calendar{advice}."
    )


def _suggestion(figures: LifetimeFigures, suggested: str) -> str:
    """Return the sentence on the suggested lifetime; ``suggested`` is that lifetime as text."""
    present = spelled(figures.lifetime_p50_ms)
    match figures.verdict:
        case Verdict.TOO_LONG:
            said = f"A lifetime of {suggested} would have been enough{_but(figures)}"
            return f"{said}; half have {present} or more."
        case Verdict.UNLIMITED:
            unlimited = f"{figures.unlimited:,} of {figures.lives:,} have no lifetime"
            return f"{unlimited}; {suggested} would have been enough{_but(figures)}."
        case Verdict.TIGHT:
            said = f"A lifetime of {suggested} would leave a margin; half have {present} or less"
        case Verdict.FITS:
            return (
                f"The lifetime suits them; half have {present} or less, {suggested} is suggested."
            )
        case _ if not figures.would_be_got:
            return (
                f"No get is known to have come within {suggested} for one of the expired: a longer "
                f"lifetime is not known to help."
            )
        case _:
            said = f"With a lifetime of {suggested} for all, {_outcomes(figures)}"
    lost = (
        "" if not figures.got_lost else f"; {figures.got_lost:,} that were got would not have been"
    )
    return f"{said}{lost}."


def _but(figures: LifetimeFigures) -> str:
    """Return the exception of messages that were got after the suggested lifetime.

    It is the end of a sentence, or "" if there are none.
    """
    return f" for all but {figures.got_lost:,} of the got" if figures.got_lost else ""


def _outcomes(figures: LifetimeFigures) -> str:
    """Return what would have become of the expired with the suggested lifetime."""
    parts = [f"{figures.would_be_got:,} of the {figures.expired:,} expired would have been got"]
    if figures.would_still_expire:
        parts.append(f"{figures.would_still_expire:,} would have expired all the same")
    if figures.not_known:
        parts.append(f"of {figures.not_known:,} the ledger cannot say it")
    return _listed(parts)


def _earlier(cap: CapFigures) -> str:
    """Return how many messages an expiry cap would have ended earlier, and by how much.

    The text is "" for none.
    """
    if not cap.expired_earlier:
        return ""
    mean = spelled(cap.freed_ms / cap.expired_earlier)
    return f"{cap.expired_earlier:,} would have expired earlier, by {mean} on average"


def _counted(count: int, noun: str) -> str:
    """Return a number with its noun: ``1 hour``, ``12 hours``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _share(part: int, whole: int) -> str:
    """Return a share in percent, ``31.0 %``; a part that is not all of it is never ``100.0 %``."""
    tenths = min(round(1000 * part / whole), 1000 if part == whole else 999)
    return f"{tenths / 10:.1f} %" if tenths or not part else "less than 0.1 %"


def _listed(parts: list[str]) -> str:
    """Return parts as a list in a sentence."""
    return ", ".join(parts[:-1]) + f" and {parts[-1]}" if len(parts) > 1 else parts[0]
