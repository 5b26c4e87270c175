"""``mayfly mqsc``, ``apply`` and ``export``: run, compare and write scripts of MQSC commands.

On a terminal ``mayfly mqsc`` is a conversation with history, completion with Tab, and help.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mayfly.admin.mqsc.commands import ENDS
from mayfly.admin.mqsc.completion import (
    DELIMITERS,
    HELP,
    candidates,
    has_secret,
    help_asked,
    is_unfinished,
)
from mayfly.admin.mqsc.export import exported
from mayfly.admin.mqsc.plan import PlanStep, ScriptPlan, StepAction, plan
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
from mayfly.cli.show import JsonOption, note, print_json
from mayfly.client.connection import Administration
from mayfly.verbs.checks import home_folder
from mayfly.verbs.facts import SYNTAX_ERROR, WITHOUT_EFFECT, MqscMessage, MqscResult

#: In the home of queue managers; no queue manager can have this name.
HISTORY_NAME: Final = ".mqsc-history"
_HISTORY_LINES: Final = 1_000
_PROMPT, _CONTINUED_PROMPT = "MQSC> ", "    > "
_OWNER_ONLY: Final = 0o600


def converse(
    run: Callable[[str], MqscResult],
    ask: Callable[[str], str],
    show: Callable[[str], None],
    lines: list[str],
) -> None:
    """Run each command that ``ask`` returns the lines of, until END or an EOFError.

    ``ask`` is given the prompt. KeyboardInterrupt in it gives up the command that is being typed,
    whose lines so far are in ``lines``.
    """
    while True:
        try:
            line = ask(_CONTINUED_PROMPT if lines else _PROMPT)
        except EOFError:
            return
        except KeyboardInterrupt:
            show("")
            lines.clear()
            continue
        first, _, rest = line.strip().rstrip(";").strip().partition(" ")
        if not lines and first.upper() in ENDS and not rest:
            return
        told = None if lines else help_asked(line)
        if told is not None:
            show(told)
            continue
        text = "\n".join((*lines, line))
        if is_unfinished(text):
            lines.append(line)
            continue
        lines.clear()
        for command in run(text).commands:
            show("\n".join(map(str, command.messages)))


def converse_on_terminal(name: str, run: Callable[[str], MqscResult]) -> None:
    """Converse on the terminal of this process, with history and completion if it has readline."""
    lines: list[str] = []
    print(f"Starting MQSC for queue manager {name}: {HELP} tells commands, {ENDS[0]} ends.")
    with _readline(lines):
        converse(run, input, print, lines)


@contextmanager
def _readline(lines: Sequence[str]) -> Iterator[None]:
    """Return a context in which ``input`` has history and completion; without readline, neither.

    ``lines`` are always those of the command that is being typed, before the present one.
    Lines with secrets do not come into the history, which is a file of its owner alone.
    """
    try:
        readline: Any = importlib.import_module("readline")
    except ImportError:
        yield
        return
    history = home_folder() / HISTORY_NAME
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LINES)
    readline.set_completer_delims(DELIMITERS)
    found: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            line = readline.get_line_buffer()[: readline.get_begidx()]
            found[:] = candidates(lines, line, word)
        return found[number] if number < len(found) else None

    readline.set_completer(complete)
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        with contextlib.suppress(OSError):
            _keep(readline, history)


def _keep(readline: Any, history: Path) -> None:
    """Write the history without lines that have secrets; raises OSError."""
    for position in reversed(range(readline.get_current_history_length())):
        line = readline.get_history_item(position + 1) or ""
        if has_secret(line):
            readline.remove_history_item(position)
    os.close(os.open(history, os.O_CREAT | os.O_WRONLY, _OWNER_ONLY))
    readline.write_history_file(history)


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


def export(name: Name, *, path: PlaceOption = None) -> None:
    """Write the MQSC script that defines a queue manager again, as dmpmqcfg does.

    It has all objects with all attributes, authority records, rules for channels and settings.
    Users, messages and secrets are not in it.

    \b
    Examples:
      mayfly export QM1 > qm1.mqsc
      mayfly mqsc QM2 qm1.mqsc
      mayfly export QM1 --url mqs://mq1.example:1414
    """
    with connected(name, path, program="mayfly export") as connection:
        print(exported(Administration(connection.call).mqsc), end="")


DesiredScript = Annotated[typer.FileText, typer.Argument(help="The MQSC script; - is stdin.")]
PlanOption = Annotated[
    bool, typer.Option("--plan", help="Change nothing; exit code 1 when something would change.")
]
DeleteOption = Annotated[
    bool, typer.Option("--delete", help="Carry out what the script deletes or removes.")
]


def apply(
    name: Name,
    script: DesiredScript,
    *,
    only_plan: PlanOption = False,
    delete: DeleteOption = False,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change what differs from a script, and nothing else.

    DEFINE of an object that exists alters the attributes that the script names and that differ; all
    others stay. Commands that change nothing are not run: a second run does nothing. The whole
    script is tried on a copy first, and when a command cannot be carried out nothing is changed.
    DISPLAY, START and others that define nothing are left to mayfly mqsc.

    Exit code 0: done, or nothing to do; 1: --plan found changes; 3: the script cannot be applied.

    \b
    Examples:
      mayfly apply QM1 queues.mqsc --plan
      mayfly apply QM1 queues.mqsc
      mayfly apply QM1 queues.mqsc --json --url mqs://mq1.example:1414
    """
    try:
        text = script.read()
    except UnicodeDecodeError as error:
        raise CommandFailed(ExitCode.USAGE, f"the script is not text: {error}") from error
    with connected(name, path, program="mayfly apply", make=not only_plan) as connection:
        administration = Administration(connection.call)
        found = plan(connection.name, administration.mqsc, text, deletes=delete)
        if not found.failing and not only_plan:
            for step in found.changing:
                _check(step, administration.mqsc(step.command).messages)
    is_applied = not found.failing and not only_plan
    if as_json:
        print_json({"applied": is_applied, "steps": [_json(step) for step in found.steps]})
    else:
        _show(found, is_applied=is_applied)
    if found.failing:
        for step in found.failing[1:]:
            note(f"{step.object}: {step.reason}")
        first = found.failing[0]
        raise CommandFailed(ExitCode.MQ, f"nothing is changed: {first.object}: {first.reason}")
    if only_plan and found.changing:
        raise typer.Exit(ExitCode.NOTHING)


def _check(step: PlanStep, messages: list[MqscMessage]) -> None:
    """Raise CommandFailed for a command that failed, although the copy took it."""
    failed = [message for message in messages if not message.is_information]
    if failed:
        raise CommandFailed(ExitCode.MQ, f"{step.object}: {failed[0]}")


def _show(found: ScriptPlan, *, is_applied: bool) -> None:
    """Print what changes, attribute by attribute, and a last line with the counts."""
    for step in found.steps:
        if step.action is StepAction.SAME:
            continue
        print(f"{step.action:<6} {step.object}{f': {step.reason}' if step.reason else ''}")
        for change in step.changes:
            print(f"         {change}")
    same = sum(step.action is StepAction.SAME for step in found.steps)
    verb = "changed" if is_applied else "to change"
    print(f"{len(found.changing)} {verb}, {same} the same")


def _json(step: PlanStep) -> dict[str, object]:
    """Return a step for programs."""
    return {
        "action": step.action.value,
        "object": step.object,
        "command": step.command,
        "changes": [change._asdict() for change in step.changes],
        "reason": step.reason,
    }
