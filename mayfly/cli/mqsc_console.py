"""A conversation in MQSC on a terminal: history, completion with Tab, and help."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mayfly.admin.mqsc.commands import ENDS
from mayfly.admin.mqsc.words import (
    DELIMITERS,
    HELP,
    candidates,
    has_secret,
    help_asked,
    is_unfinished,
)
from mayfly.verbs.checks import home_folder
from mayfly.verbs.facts import MqscResult

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
