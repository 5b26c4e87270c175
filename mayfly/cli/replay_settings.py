"""The settings of ``mayfly replay`` as people type them: QUEUE=VALUE, or VALUE for every other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mayfly.cli.values import duration_ms

if TYPE_CHECKING:
    from mayfly.pipeline.replay.settings import Settings

_TTL_RULES = {"send": False, "release": True}


def _option(name: str, metavar: str, text: str) -> Any:
    return typer.Option(name, metavar=f"[Q=]{metavar}", help=text)


CapOption = Annotated[
    list[str] | None, _option("--cap", "TIME", "Cap each lifetime, as CAPEXPRY does.")
]
DelayOption = Annotated[
    list[str] | None, _option("--delay", "TIME", "Delay each message by this instead.")
]
LifeOption = Annotated[
    list[str] | None, _option("--life", "TIME", "Give each message this lifetime instead.")
]
TtlFromOption = Annotated[
    list[str] | None,
    _option(
        "--ttl-from", "RULE", "Lifetimes begin at the put (send) or after the delay (release)."
    ),
]
SequenceOption = Annotated[
    list[str] | None, _option("--sequence", "ORDER", "Take by priority or fifo, as MSGDLVSQ says.")
]
ConsumersOption = Annotated[
    list[str] | None, _option("--consumers", "N", "So many take whatever comes, for ever.")
]
ServiceOption = Annotated[
    list[str] | None, _option("--service", "TIME", "How long a message keeps a consumer busy.")
]
ReceiveTimeoutOption = Annotated[
    list[str] | None,
    _option("--receive-timeout", "TIME", "How long a get, or a consumer's receive, waits."),
]


def settings_from(texts_by_option: Sequence[list[str] | None]) -> Settings:
    """Return what was typed for each of the options above, in their order, by queue.

    Raises ValueError with the option and the value.
    """
    from mayfly.pipeline.replay.settings import EVERY_OTHER, WhatIf, check_settings

    typed = {
        name: dict(_pair(name, text, EVERY_OTHER) for text in _once(name, texts, EVERY_OTHER))
        for name, texts in zip(_FIELDS, texts_by_option, strict=True)
        if texts is not None
    }
    queues = {EVERY_OTHER: None} | {queue: None for values in typed.values() for queue in values}
    settings = {}
    for queue in queues:
        fields: dict[str, Any] = {
            _FIELDS[name][0]: values.get(queue, values.get(EVERY_OTHER))
            for name, values in typed.items()
            if queue in values or EVERY_OTHER in values
        }
        # Said of every queue, it is meant for those that have consumers, if any has.
        is_own = queue != EVERY_OTHER and queue in typed.get("service", {})
        if "consumers" in typed and "consumers" not in fields and not is_own:
            fields.pop("service_ms", None)
        settings[queue] = WhatIf(**fields)
    check_settings(settings)
    return settings


def _pair(name: str, text: str, every_other: str) -> tuple[str, Any]:
    queue, _, value = text.rpartition("=")
    option = f"--{name.replace('_', '-')}"
    try:
        return (every_other if queue == "" else queue), _FIELDS[name][1](value)
    except (ValueError, typer.BadParameter) as error:
        raise ValueError(f"{option} {text}: {error}") from error


def _once(name: str, texts: list[str], every_other: str) -> list[str]:
    """Return what was typed; raises ValueError for a queue that is named twice."""
    queues = [text.rpartition("=")[0] or every_other for text in texts]
    for queue in queues:
        if queues.count(queue) > 1:
            whose = "every queue" if queue == every_other else queue
            raise ValueError(f"--{name.replace('_', '-')} is given twice for {whose}")
    return texts


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def _ttl_rule(text: str) -> bool:
    if text.lower() not in _TTL_RULES:
        raise ValueError(f"{text!r} is not {' or '.join(_TTL_RULES)}")
    return _TTL_RULES[text.lower()]


#: Each option by its name: the setting it is, and how its value is read.
_FIELDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "cap": ("cap_ms", duration_ms),
    "delay": ("delay_ms", duration_ms),
    "life": ("life_ms", duration_ms),
    "ttl_from": ("from_release", _ttl_rule),
    "sequence": ("sequence", str.lower),
    "consumers": ("consumers", _count),
    "service": ("service_ms", duration_ms),
    "receive_timeout": ("receive_timeout_ms", duration_ms),
}
