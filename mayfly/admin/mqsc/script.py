"""A script from its first line to END: run each command, keep the transcript."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from mayfly.admin.mqsc.commands import execute, head_of
from mayfly.admin.mqsc.grammar import MqscSyntaxError, Statement, fold, parse, statements
from mayfly.admin.mqsc.outcome import Outcome
from mayfly.admin.mqsc.result import echo, head, tail
from mayfly.verbs.mqsc_result import SYNTAX_ERROR, CommandResult, Message, MqscResult

if TYPE_CHECKING:
    from mayfly.admin import Engine

_END = "END"


def run_script(queue_manager: Engine, text: str) -> MqscResult:
    """Run MQSC commands, one or many lines of them, and return what they answered.

    A wrong command changes nothing and the next one follows; no command raises an exception.
    """
    transcript = [head(queue_manager.name)]
    commands: list[CommandResult] = []
    for statement in statements(text):
        if not statement.is_command:
            transcript.append(echo(statement.lines))
            continue
        transcript.append(echo(statement.lines, len(commands) + 1))
        if _is_end(statement):
            break
        outcome = _run(queue_manager, statement)
        transcript += map(str, outcome.messages)
        commands.append(
            CommandResult(len(commands) + 1, statement.text, outcome.messages, outcome.rows)
        )
    transcript.append(tail(commands))
    return MqscResult("\n".join(transcript) + "\n", tuple(commands))


def heads_of(text: str) -> set[tuple[str, str]]:
    """Return verb and kind of object of all commands that a script would run, both in full.

    Commands with an error of syntax are left out: they run nothing.
    """
    found: set[tuple[str, str]] = set()
    for statement in statements(text):
        if statement.is_command:
            if _is_end(statement):
                break
            with contextlib.suppress(MqscSyntaxError):
                found.add(head_of(parse(statement)))
    return found


def _is_end(statement: Statement) -> bool:
    return fold(statement.text).rstrip("; ") == _END


def _run(queue_manager: Engine, statement: Statement) -> Outcome:
    try:
        return execute(queue_manager, parse(statement))
    except MqscSyntaxError as error:
        return Outcome((_syntax_error(statement, error),))


def _syntax_error(statement: Statement, error: MqscSyntaxError) -> Message:
    line, column = statement.place(error.start)
    return Message(
        SYNTAX_ERROR,
        "Syntax error detected at or near end of command segment below:-",
        f"{statement.text[: error.end].rstrip()}\nline {line}, column {column}: {error}",
        line=line,
        column=column,
    )
