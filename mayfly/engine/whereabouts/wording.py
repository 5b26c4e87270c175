"""Words for the cap that shortened a life, for the end of a life, and for what met it expired."""

from __future__ import annotations

from collections.abc import Sequence

from mayfly.lifetime.life import State, read_cap
from mayfly.lifetime.times import ms_of_tenths, spelled_duration
from mayfly.verbs.contracts.outcomes import MetBy
from mayfly.verbs.stories import Stay

_KINDS = {
    "QALIAS": "alias",
    "QLOCAL": "queue",
    "QMODEL": "model queue",
    "QREMOTE": "remote definition",
    "TOPIC": "topic object",
}
#: The words before the name of the user, program or channel that met an expired message.
_OF_SOMEBODY: dict[str, str] = {
    MetBy.GET: "a get of",
    MetBy.BROWSE: "a browse of",
    MetBy.CHANNEL: "channel",
    MetBy.CLAIM: "a claim of consumer",
}
#: The words where no name is known, or needed.
_OF_NOBODY: dict[str, str] = {
    MetBy.GET: "a get",
    MetBy.BROWSE: "a browse",
    MetBy.SCAN: "the expiry scan",
    MetBy.RELEASE: "the delay processor",
    MetBy.CHANNEL: "a channel",
    MetBy.CLAIM: "a claim of a pipeline",
    MetBy.COMMIT: "the commit of its unit of work",
    MetBy.PUT: "its put",
    MetBy.TOPIC: "a publication or subscription to its topic",
}


def cap_of(stay: Stay) -> str:
    """Return which object caps lives at what, for a life that this has shortened; else empty."""
    if not stay.capped_by:
        return ""
    cap = read_cap(stay.capped_by)
    if cap is None:
        return f"{stay.capped_by} shortened its life"
    life = spelled_duration(ms_of_tenths(cap.tenths))
    return f"{_KINDS.get(cap.kind, cap.kind)} {cap.name} caps lives at {life}"


def with_caps_of_senders(stays: Sequence[Stay]) -> list[Stay]:
    """Return stays with the cap of the queue manager that sent the message, where it counts here.

    The rest of a life travels, the cap that shortened it does not. The object of such a cap is
    ``NAME@MANAGER``.
    """
    capped = {s.msg_id: s for s in stays if s.state == State.TRANSMITTED and s.capped_by}
    return [_as_sent(stay, capped.get(stay.msg_id)) for stay in stays] if capped else list(stays)


def _as_sent(stay: Stay, sent: Stay | None) -> Stay:
    is_elsewhere = sent is not None and sent.queue_manager != stay.queue_manager
    if sent is None or not is_elsewhere or stay.capped_by or stay.expire_at_ms is None:
        return stay
    cap = read_cap(sent.capped_by)
    if cap is None or stay.put_ms < sent.put_ms:
        return stay
    name = f"{cap.name}@{sent.queue_manager}"
    return stay._replace(capped_by=cap._replace(name=name).text)


def ender_of(stay: Stay) -> str:
    """Return who has ended a life: ``user (program)``, or the one of the two that is known."""
    if stay.ended_by and stay.ended_program:
        return f"{stay.ended_by} ({stay.ended_program})"
    return stay.ended_by or stay.ended_program


def meeting_of(stay: Stay) -> str:
    """Return what met an expired message, empty where the ledger does not tell."""
    who = ender_of(stay)
    if who and stay.met_by in _OF_SOMEBODY:
        return f"{_OF_SOMEBODY[stay.met_by]} {who}"
    return _OF_NOBODY.get(stay.met_by, stay.met_by)
