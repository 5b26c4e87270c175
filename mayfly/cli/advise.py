"""``mayfly advise``: which receive timeout and transaction lifetime are safe for a listener."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from mayfly.cli.advise_show import as_json as advice_as_json
from mayfly.cli.advise_show import print_advice
from mayfly.cli.managers import JsonOption
from mayfly.cli.outcomes import CommandFailed, ExitCode, wrong_values
from mayfly.cli.show import print_json
from mayfly.cli.values import duration_ms, local_path
from mayfly.lifetime.times import SECOND_MS

if TYPE_CHECKING:
    from mayfly.pipeline.advise.advice import Advice
    from mayfly.pipeline.advise.durations import Durations

#: Parameters of the advice besides a setting.
_LIMITS = ("margin_ms", "idle_per_hour", "seed")
_ASKED = (
    "how long does the longest on_message take? Say it with --longest, as in --longest 15s, with "
    "--on-message, or as longest_on_message_ms in the --config file"
)


def lifetime_seconds(text: str) -> int:
    """Return a lifetime such as ``2min`` in seconds; raises BadParameter."""
    lifetime_ms = duration_ms(text)
    if lifetime_ms % SECOND_MS:
        raise typer.BadParameter(f"{text!r} is not a whole number of seconds")
    return lifetime_ms // SECOND_MS


Source = Annotated[
    Path | None,
    typer.Argument(
        parser=local_path,
        metavar="TRACE|LAKE|FOLDER",
        help="What was recorded: a trace (CSV, Parquet, Arrow), a lake, or the folder of a queue "
        "manager. Without it, only the setting is judged.",
    ),
]
QueueOption = Annotated[
    str | None, typer.Option("--queue", metavar="QUEUE", help="Which queue, where there are more.")
]
TimeoutOption = Annotated[
    int | None,
    typer.Option(
        "--receive-timeout",
        parser=duration_ms,
        metavar="TIME",
        help="NON.ASF.RECEIVE.TIMEOUT as it is set.",
    ),
]
LifetimeOption = Annotated[
    int | None,
    typer.Option(
        "--lifetime",
        parser=lifetime_seconds,
        metavar="TIME",
        help="Total transaction lifetime; 0 for none, else whole seconds. [default: 120s]",
    ),
]
LongestOption = Annotated[
    int | None,
    typer.Option(
        "--longest", parser=duration_ms, metavar="TIME", help="How long the longest on_message is."
    ),
]
OnMessageOption = Annotated[
    str | None,
    typer.Option(
        "--on-message",
        metavar="TIMES",
        help="How long on_message takes: one time, percentiles as p50=2s,p99=9s,max=15s, or a CSV "
        "file with a column on_message_ms. [default: always the longest]",
    ),
]
SessionsOption = Annotated[
    int | None, typer.Option("--sessions", metavar="N", help="Maximum sessions. [default: 1]")
]
BothreshOption = Annotated[
    int | None,
    typer.Option("--bothresh", metavar="N", help="BOTHRESH of the queue. [default: its own, or 0]"),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        parser=local_path,
        metavar="FILE",
        help="Read these settings: .toml, or properties.",
    ),
]
ManagerOption = Annotated[
    str | None,
    typer.Option(
        "--qmgr", metavar="QMGR", help="Queue manager: whose lives of a lake, or whose own ledger."
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="The server of --qmgr, mq://HOST:PORT?channel=CHANNEL, mqs:// with TLS. The password "
        "is in MAYFLY_PASSWORD.",
    ),
]
MarginOption = Annotated[
    int | None,
    typer.Option(
        "--margin",
        parser=duration_ms,
        metavar="TIME",
        help="What is to be left of the lifetime after the longest on_message. [default: 1s]",
    ),
]
IdleOption = Annotated[
    int | None,
    typer.Option(
        "--idle-per-hour",
        metavar="N",
        help="Idle rollbacks an hour that a session may cost. [default: 60]",
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, metavar="N", help="Deals on_message times out to messages.")
]


def advise(
    source: Source = None,
    *,
    queue: QueueOption = None,
    receive_timeout_ms: TimeoutOption = None,
    total_tran_lifetime_timeout_s: LifetimeOption = None,
    longest_on_message_ms: LongestOption = None,
    on_message: OnMessageOption = None,
    max_sessions: SessionsOption = None,
    bothresh: BothreshOption = None,
    config: ConfigOption = None,
    qmgr: ManagerOption = None,
    url: UrlOption = None,
    margin_ms: MarginOption = None,
    idle_per_hour: IdleOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Say which receive timeout and transaction lifetime are safe for a non-ASF listener.

    A transaction begins before the receive, so a message that comes late leaves little of it. From
    recorded arrivals it is simulated what the setting has cost and what another would. Exit code 1
    when the present setting is not safe.

    \b
    Examples:
      mayfly advise --receive-timeout 110s --lifetime 120s --longest 15s
      mayfly advise lake --queue ORDERS --config port.properties --sessions 2 --longest 15s
      mayfly advise --qmgr QM1 --queue ORDERS --on-message p50=2s,p99=9s,max=15s
    """
    # Options are named as what they say to the advice.
    said = {name: value for name, value in locals().items() if value is not None}
    with wrong_values():
        answer = _answer(said)
    if as_json:
        print_json(advice_as_json(answer))
    else:
        print_advice(answer)
    if answer.problems:
        raise CommandFailed(ExitCode.NOTHING, "the present setting is not safe")


def _answer(said: dict[str, Any]) -> Advice:
    from mayfly.cli.advise_source import recorded
    from mayfly.pipeline.advise import advice
    from mayfly.pipeline.advise.config import read_config
    from mayfly.pipeline.advise.settings import Setting

    values = (read_config(said["config"]) if "config" in said else {}) | said
    longest_ms = values.get("longest_on_message_ms")
    durations = _durations(values.get("on_message"), longest_ms)
    with Console(stderr=True).status("reading what was recorded"):
        record = recorded(*(values.get(name) for name in ("source", "qmgr", "queue", "url")))
    if record is not None and record.bothresh is not None:
        values.setdefault("bothresh", record.bothresh)
    with Console(stderr=True).status("trying the settings"):
        return advice.advise(
            Setting(**_named(Setting._fields, values)),
            durations,
            None if record is None else record.arrivals,
            longest_on_message_ms=longest_ms,
            **_named(_LIMITS, values),
        )


def _named(names: Iterable[str], values: dict[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _durations(on_message: str | None, longest_ms: int | None) -> Durations:
    from mayfly.pipeline.advise.durations import always, from_file, from_text

    if on_message is None:
        if longest_ms is None:
            raise ValueError(_ASKED)
        return always(longest_ms)
    if on_message.lower().endswith(".csv"):
        return from_file(local_path(on_message))
    try:
        return from_text(on_message, duration_ms)
    except (ValueError, typer.BadParameter) as error:
        raise ValueError(f"--on-message: {error}") from error
