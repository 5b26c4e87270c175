"""Draws the life of a message from its table, for docs/LIFETIME.md."""

from __future__ import annotations

from mayfly.lifetime.life import NEXT, Event, State

#: State in which a life begins -> its events: a put, a delayed put, a put under syncpoint.
_BEGINNINGS = {
    State.AVAILABLE: "put, release, dead letter, report",
    State.DELAYED: "delayed put",
    State.UNCOMMITTED: "put under syncpoint",
}


def picture() -> str:
    """Return the life as a Mermaid state diagram, one line for each pair of states."""
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {state}: {how}" for state, how in _BEGINNINGS.items()]
    for state, following in NEXT.items():
        events_to: dict[State, list[Event]] = {}
        for event, after in following.items():
            events_to.setdefault(after, []).append(event)
        for after, events in events_to.items():
            names = ", ".join(event.replace("_", " ") for event in events)
            lines.append(f"    {state} --> {after}: {names}")
    lines += [f"    {state} --> [*]" for state in State if state not in NEXT]
    return "\n".join(lines) + "\n"
