"""``mayfly why``: say where a message is, or how it ended."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mayfly.cli.lake_engine import LakeArchive
from mayfly.cli.managers import Name, PlaceOption, connected
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import JsonOption, aligned, print_json, seconds_shown
from mayfly.cli.values import PropertyValue, local_path, message_id, moment_ms, property_of
from mayfly.client.connection import Administration
from mayfly.client.connection.json_values import trace_as_json, traces_as_json
from mayfly.engine import TraceSource, TraceSources, combined_trace
from mayfly.lifetime.times import spelled_moment
from mayfly.verbs.checks import Identifier as Id
from mayfly.verbs.facts import MAX_TRACES, MessageTrace, PropertyQuestion, Step, TracesFound

_HEAD = ("at (UTC)", "what", "queue", "")

Identifier = Annotated[
    bytes | None,
    typer.Argument(parser=message_id, metavar="[ID]", help="MsgId or CorrelId, in hexadecimal."),
]
LakeOption = Annotated[
    Path | None,
    typer.Option(
        "--lake",
        parser=local_path,
        metavar="FOLDER",
        help="A lake of the ledger, in which to look as well. Needs mayfly-mq[lake].",
    ),
]
PropertyOption = Annotated[
    PropertyValue | None,
    typer.Option(
        "--property",
        parser=property_of,
        metavar="NAME=VALUE",
        help="Instead of an id: a property of messages that are here.",
    ),
]
FromOption = Annotated[
    int | None,
    typer.Option(
        "--from", parser=moment_ms, metavar="MOMENT", help="With --property: put then or later."
    ),
]
BeforeOption = Annotated[
    int | None,
    typer.Option(
        "--before", parser=moment_ms, metavar="MOMENT", help="With --property: put before then."
    ),
]
LimitOption = Annotated[
    int, typer.Option(min=1, max=MAX_TRACES, help="With --property: so many traces.")
]


def why(
    name: Name,
    identifier: Identifier = None,
    *,
    having: PropertyOption = None,
    from_ms: FromOption = None,
    before_ms: BeforeOption = None,
    limit: LimitOption = 20,
    path: PlaceOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say where a message is, or what became of it: in one sentence, then step by step.

    Looks on all queues, among delayed messages, dead letters, claims and open units of work, and
    in the ledger of what has ended, on all queue managers that its server serves. Changes
    nothing. Exit code 1 when nothing is known; the sentence says what retention has taken.

    \b
    Examples:
      mayfly why QM1 414d5120514d31202020202020202020a10eb26700000001
      mayfly why QM1 --property order=17 --from 2026-11-20 --before 2026-11-21
    """
    if (identifier is None) == (having is None):
        raise CommandFailed(ExitCode.USAGE, "give either an ID or --property")
    with (
        connected(name, path, program="mayfly why") as connection,
        seconds_shown(sys.stderr, "the ledger is searched"),
    ):
        traces = Administration(connection.call).traces
        archives = [] if lake is None else [LakeArchive(lake.absolute())]

        def trace_of(asked_id: Id) -> MessageTrace:
            """Return the trace of one message, from the server and the lake."""
            return combined_trace(
                TraceSources(TraceSource(name, traces.of), archives=archives), asked_id
            )

        if having is None:
            assert identifier is not None
            _print_trace(trace_of(identifier), as_json=as_json)
            return
        found = traces.with_property(PropertyQuestion(*having, from_ms, before_ms, limit))
        if archives:
            whole = tuple(trace_of(trace.asked_id) for trace in found.traces)
            found = found._replace(traces=whole)
    _print_traces(name, found, as_json=as_json)


def _print_trace(found: MessageTrace, *, as_json: bool) -> None:
    """Print one message's trace; raises CommandFailed (exit code 1) if it is unknown."""
    if as_json:
        print_json(trace_as_json(found))
    elif found.is_known:
        print(found.sentence)
        print(*lines_of(found.steps), *found.notes, sep="\n")
    if not found.is_known:
        raise CommandFailed(ExitCode.NOTHING, found.sentence)


def _print_traces(name: str, found: TracesFound, *, as_json: bool) -> None:
    """Print the traces of several messages; raises CommandFailed (exit code 1) without any."""
    if as_json:
        print_json(traces_as_json(found))
    else:
        for trace in found.traces:
            print(trace.asked_id.hex(), trace.sentence, *lines_of(trace.steps), "", sep="\n")
        if found.traces:
            print(*(["There are more."] if found.is_cut else []), *found.notes, sep="\n")
    if not found.traces:
        text = f"no message on {name} has this property. {' '.join(found.notes)}"
        raise CommandFailed(ExitCode.NOTHING, text)


def lines_of(steps: tuple[Step, ...]) -> list[str]:
    """Return the steps of a trace as lines of a table, after a heading.

    It has a column for queue managers if there are several.
    """
    several = len({step.queue_manager for step in steps}) > 1
    rows = [
        (spelled_moment(step.at_ms), *((step.queue_manager,) if several else ()), *step[1:4])
        for step in steps
    ]
    rows.insert(0, (_HEAD[0], *(("queue manager",) if several else ()), *_HEAD[1:]))
    return list(aligned(rows, right=()))
