"""A conversation in MQSC on a terminal: history, completion with Tab, and help."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from mayfly.admin import SECRETS
from mayfly.admin.mqsc.grammar import statements
from mayfly.admin.mqsc.words import ENDS, HELP, help_about, next_words
from mayfly.verbs.checks import home_folder
from mayfly.verbs.facts import MqscResult

#: In the home of queue managers; no queue manager can have this name.
HISTORY_NAME: Final = ".mqsc-history"
_HISTORY_LINES: Final = 1_000
_PROMPT, _CONTINUED_PROMPT = "MQSC> ", "    > "
_DELIMITERS: Final = " \t\n(),;"
_OWNER_ONLY: Final = 0o600


class TypedLines:
    """What has been typed of a command: the lines before this one, which ``+`` or ``-`` ended."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.lines: list[str] = []

    def candidates(self, line: str, word: str) -> list[str]:
        """Return what ``word`` may become, where ``line`` is this line before it.

        A blank is behind the only verb, as its object follows.
        """
        before = "".join(f"{text.rstrip()[:-1]} " for text in self.lines) + line
        found = [each for each in next_words(before) if each.startswith(word.upper())]
        return [f"{found[0]} "] if len(found) == 1 and not before.strip() else found


def converse(
    run: Callable[[str], MqscResult],
    ask: Callable[[str], str],
    show: Callable[[str], None],
    typed: TypedLines,
) -> None:
    """Run each command that ``ask`` returns the lines of, until END or an EOFError.

    ``ask`` is given the prompt. KeyboardInterrupt in it gives up the command that is being typed.
    """
    while True:
        try:
            line = ask(_CONTINUED_PROMPT if typed.lines else _PROMPT)
        except EOFError:
            return
        except KeyboardInterrupt:
            show("")
            typed.lines.clear()
            continue
        first, _, rest = line.strip().rstrip(";").strip().partition(" ")
        if not typed.lines and first.upper() in ENDS and not rest:
            return
        if not typed.lines and first.upper() in (HELP, "?"):
            show(help_about(rest))
            continue
        text = "\n".join((*typed.lines, line))
        if any(statement.is_unfinished for statement in statements(text)):
            typed.lines.append(line)
            continue
        typed.lines.clear()
        for command in run(text).commands:
            show("\n".join(map(str, command.messages)))


def converse_on_terminal(name: str, run: Callable[[str], MqscResult]) -> None:
    """Converse on the terminal of this process, with history and completion if it has readline."""
    typed = TypedLines()
    print(f"Starting MQSC for queue manager {name}: {HELP} tells commands, {ENDS[0]} ends.")
    with _readline(typed):
        converse(run, input, print, typed)


@contextmanager
def _readline(typed: TypedLines) -> Iterator[None]:
    """Return a context in which ``input`` has history and completion; without readline, neither.

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
    readline.set_completer_delims(_DELIMITERS)
    found: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            line = readline.get_line_buffer()[: readline.get_begidx()]
            found[:] = typed.candidates(line, word)
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


def has_secret(line: str) -> bool:
    """Return True if a line names an attribute that is a secret."""
    return any(secret in line.upper() for secret in SECRETS)
