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
from mayfly.cli.mqsc_console import converse_on_terminal
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import JsonOption, note, print_json
from mayfly.client.connection import Administration
from mayfly.verbs.facts import SYNTAX_ERROR, WITHOUT_EFFECT, MqscMessage

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

    They come from a file, from stdin or from -c; on a terminal they are asked for, with history,
    completion by Tab, and HELP. A queue manager that does not exist is made. With
    --json the displayed objects (rows) and all replies are printed, each with its command and the
    place of an error in the script. A failure is also a line on stderr. Exit code 3 when a command
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
    is_asked = script is None and not command and not as_json and sys.stdin.isatty()
    text = "\n".join(command) if command else "" if is_asked else _read(script)
    given = configuration_of(platform, command_level, setting)
    with connected(name, path, program="mayfly mqsc", make=True, given=given) as connection:
        run = Administration(connection.call).mqsc
        if is_asked:
            converse_on_terminal(name, run)
            return
        result = run(text)
    if as_json:
        replies = [
            {
                "command": each.command,
                "code": message.code,
                "text": message.text,
                "detail": _detail(message),
                "reason": message.reason,
                "line": message.line,
                "column": message.column,
            }
            for each in result.commands
            for message in each.messages
        ]
        print_json({"ok": result.ok, "rows": result.rows, "messages": replies})
    else:
        print(result.text, end="")
    failures = [
        f"line {message.line}, column {message.column}: {_beginning(each.command)}: "
        f"{message.code}: {_reason(message)}"
        for each in result.commands
        for message in each.messages
        if not message.is_information
    ]
    if len(failures) == 1:
        raise CommandFailed(ExitCode.MQ, failures[0])
    for failure in failures:
        note(failure)
    if failures:
        count = f"{len(failures)} of {len(result.commands)}"
        raise CommandFailed(ExitCode.MQ, f"{count} commands failed")


def _beginning(command: str) -> str:
    """Return the verb and the object of a command: ``DEFINE QLOCAL(Q1)``."""
    return f"{command.partition(')')[0]})" if ")" in command else command


def _reason(message: MqscMessage) -> str:
    """Return why a command failed, in one line."""
    told = message.body.splitlines()
    if message.code == SYNTAX_ERROR:
        # The last line of the reply has the place and the reason.
        return told[-1].partition(": ")[2]
    return " ".join((message.text, *told))


def _detail(message: MqscMessage) -> str:
    """Return what a reply says beside its text; the objects of a DISPLAY are rows of their own."""
    if message.is_information:
        return message.body if message.code == WITHOUT_EFFECT else ""
    return _reason(message)


def _read(script: typer.FileText | None) -> str:
    """Return the text of a script, None for standard input; raises CommandFailed if not text."""
    source = sys.stdin if script is None else script
    try:
        return source.read()
    except UnicodeDecodeError as error:
        raise CommandFailed(ExitCode.USAGE, f"the script is not text: {error}") from error
