"""The command line as a whole: which commands there are."""

from __future__ import annotations

from typing import Annotated

import typer

from mayfly import __version__
from mayfly.cli.advise import advise
from mayfly.cli.browse import browse
from mayfly.cli.claims import claims
from mayfly.cli.clock import clock
from mayfly.cli.cluster import cluster
from mayfly.cli.demo import demo
from mayfly.cli.dlq import dlq
from mayfly.cli.get import get
from mayfly.cli.ledger import ledger
from mayfly.cli.mqsc import mqsc
from mayfly.cli.outcomes import EXIT_CODES, Commands
from mayfly.cli.pipeline import pipeline
from mayfly.cli.put import put
from mayfly.cli.replay import replay
from mayfly.cli.schedule import schedule
from mayfly.cli.serve import serve
from mayfly.cli.trigger import trigger
from mayfly.cli.verify import verify
from mayfly.cli.why import why

app = typer.Typer(
    name="mayfly",
    cls=Commands,
    help="Mayfly: a message queue manager in which every message has a lifetime.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(*, is_wanted: bool) -> None:
    if is_wanted:
        print(f"mayfly {__version__}")
        raise typer.Exit


@app.callback()
def _mayfly(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            is_eager=True,
            callback=lambda value: _print_version(is_wanted=value),
        ),
    ] = False,
) -> None:
    """Mayfly: a message queue manager in which every message has a lifetime."""
    del version


for command in (mqsc, put, get, browse, why, verify, serve, demo, replay, advise, cluster):
    app.command()(command)
app.add_typer(ledger)
app.add_typer(claims)
app.add_typer(clock)
app.add_typer(schedule)
app.add_typer(pipeline)
app.add_typer(dlq)
app.add_typer(trigger)
