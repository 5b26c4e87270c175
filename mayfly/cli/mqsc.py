"""``mayfly mqsc``: run MQSC commands, as runmqsc does."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mayfly.cli.managers import (
    LevelOption,
    Name,
    PlaceOption,
    PlatformOption,
    SettingOption,
    configuration_of,
    connected,
)
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import JsonOption, print_json
from mayfly.client.connection import Administration

Script = Annotated[typer.FileText | None, typer.Argument(help="The script; - or nothing is stdin.")]
CommandOption = Annotated[
    list[str] | None, typer.Option("--command", "-c", help="A command; may be given repeatedly.")
]


def mqsc(
    name: Name,
    script: Script = None,
    *,
    command: CommandOption = None,
    platform: PlatformOption = None,
    command_level: LevelOption = None,
    setting: SettingOption = None,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run MQSC commands, as runmqsc does.

    They come from a file, from stdin or from -c. A queue manager that does not exist is made. With
    --json the displayed objects (rows) and all replies are printed. Exit code 3 when a command
    failed.

    \b
    Examples:
      mayfly mqsc QM1 -c "DEFINE QLOCAL(Q1) CAPEXPRY(600)"
      mayfly mqsc QM1 queues.mqsc --json
      mayfly mqsc QMI queues.mqsc --platform ibmi
      mayfly mqsc QM1 -c "START CHANNEL(QM1.TO.QM2)" --url mqs://mq1.example:1414
    """
    if command and script is not None:
        raise CommandFailed(ExitCode.USAGE, "give a script or -c, not both")
    text = "\n".join(command) if command else _read(script)
    given = configuration_of(platform, command_level, setting)
    with connected(name, path, program="mayfly mqsc", make=True, given=given) as connection:
        result = Administration(connection.call).mqsc(text)
    if as_json:
        replies = [
            {"code": message.code, "text": message.text, "reason": message.reason}
            for message in result.messages
        ]
        print_json({"ok": result.ok, "rows": result.rows, "messages": replies})
    else:
        print(result.text, end="")
    if not result.ok:
        failed = [message for message in result.messages if not message.is_information]
        raise CommandFailed(ExitCode.MQ, f"{len(failed)} failed, first {failed[0].code}")


def _read(script: typer.FileText | None) -> str:
    """Return the text of a script, None for standard input; raises CommandFailed if not text."""
    source = sys.stdin if script is None else script
    try:
        return source.read()
    except UnicodeDecodeError as error:
        raise CommandFailed(ExitCode.USAGE, f"the script is not text: {error}") from error
