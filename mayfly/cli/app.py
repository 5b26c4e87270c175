"""The ``mayfly`` command with all its subcommands; each is imported only when it is run."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from mayfly import __version__
from mayfly.build import is_compiled
from mayfly.cli.outcomes import EXIT_CODES, Commands

#: Command or group of commands -> the first sentence of its help.
COMMANDS = {
    "qm": "Make, list, start, stop and delete queue managers of this machine.",
    "mqsc": "Run MQSC commands, as runmqsc does.",
    "apply": "Change what differs from a script, and nothing else.",
    "export": "Write the MQSC script that defines a queue manager again, as dmpmqcfg does.",
    "put": "Put one message on a queue and print its id.",
    "get": "Take the next message off a queue and print it.",
    "browse": "Show the messages of a queue, and leave them there.",
    "why": "Say where a message is, or what became of it: in one sentence, then step by step.",
    "verify": "Prove that no message is lost or counted twice, and that no file is damaged.",
    "compact": "Give the disk back what the database no longer needs, and its pages checksums.",
    "backup": "Copy a queue manager to a folder or an object store while it works.",
    "restore": "Make the folder of a queue manager from a backup, and verify it.",
    "serve": "Keep queue managers open for the programs of other processes and machines.",
    "switch": "Let a standby become the owner of a queue manager, and wait until it is.",
    "user": "Users of a queue manager that may connect over a network: add, change, list.",
    "ping": "Say whether the server of a queue manager on this machine lives, and is ready.",
    "demo": "Live through a day of real flights twice, then replay their year in Spark.",
    "replay": "Replay what happened under other settings, and say what would have changed.",
    "advise": "Say which receive timeout and transaction lifetime are safe for a non-ASF listener.",
    "cluster": "Run a Spark master and workers on 127.0.0.1 until interrupted or terminated.",
    "ledger": "Copy a ledger into a lake (Parquet, Delta), and ask the lake about it.",
    "claims": "See what consumers of queues have claimed, and give it back.",
    "clock": "A queue manager's own time beside the wall clock: show it, accept the wall clock.",
    "schedule": "See and change what waits for its delivery time.",
    "pipeline": "Run a pipeline of queues, files and topics that is written down in a TOML file.",
    "dlq": "See what is dead-lettered, and say by rules what becomes of it.",
    "trigger": "Start programs when queues have work for them.",
    "libmqm": "The C library under whose names programs for IBM MQ load Mayfly.",
}
#: Modules with several commands; any other command is in the module of its name.
_MODULES = {
    **dict.fromkeys(("verify", "compact", "backup", "restore"), "folders"),
    **dict.fromkeys(("put", "get", "browse"), "messages"),
    **dict.fromkeys(("apply", "export"), "mqsc"),
}


class _CommandsOnDemand(Commands):
    """The top group of commands: lists them from COMMANDS, and imports only the one that is run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return (the name, the imported command, the arguments for it).

        ``args`` are the words of the command line from the command's name on. An unknown name ends
        with click's usage error.
        """
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else command_named(name), rest


@cache
def command_named(name: str) -> Any:
    """Import the command or the group of commands with this name, and return it for click."""
    found = getattr(import_module(f"mayfly.cli.{_MODULES.get(name, name)}"), name)
    if isinstance(found, typer.Typer):
        found.info.name, found.info.help = name, COMMANDS[name]
        return typer.main.get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(found)
    return typer.main.get_command(alone)


app = typer.Typer(
    name="mayfly",
    cls=_CommandsOnDemand,
    help="Mayfly: a message queue manager in which every message has a lifetime.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(*, is_wanted: bool) -> None:
    """Print Mayfly's version and end the command; does nothing without --version."""
    if is_wanted:
        print(f"mayfly {__version__}, {'compiled' if is_compiled() else 'pure Python'}")
        raise typer.Exit


@app.callback()
def _mayfly(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version, and whether it was compiled.",
            is_eager=True,
            callback=lambda value: _print_version(is_wanted=value),
        ),
    ] = False,
) -> None:
    """Mayfly: a message queue manager in which every message has a lifetime."""
    del version


def _name_only() -> None:
    """Do nothing: a placeholder that lists a command in ``--help`` without its import."""


for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(_name_only)
