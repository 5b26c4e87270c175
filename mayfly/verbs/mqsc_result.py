"""The result of MQSC commands."""

from __future__ import annotations

from dataclasses import dataclass

from mayfly.verbs.facts import Value

SYNTAX_ERROR = "AMQ8405E"
_INFORMATION = "I"


@dataclass(frozen=True, slots=True)
class Message:
    """One reply to a command.

    ``body`` is what is printed below it. ``reason`` is the MQRC_* behind a failure, 0 otherwise;
    ``line`` and ``column``, from 1, are the place of a syntax error in the script, 0 otherwise.
    """

    code: str
    text: str
    body: str = ""
    reason: int = 0
    line: int = 0
    column: int = 0

    @property
    def is_information(self) -> bool:
        """Whether the command went well."""
        return self.code.endswith(_INFORMATION)

    def __str__(self) -> str:
        return f"{self.code}: {self.text}" + (f"\n{self.body}" if self.body else "")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """One command of a script, by its number from 1, with its replies and the objects shown."""

    number: int
    command: str
    messages: tuple[Message, ...]
    rows: tuple[dict[str, Value], ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the command was carried out."""
        return all(message.is_information for message in self.messages)

    @property
    def is_valid(self) -> bool:
        """Whether the command was understood."""
        return all(message.code != SYNTAX_ERROR for message in self.messages)


@dataclass(frozen=True, slots=True)
class MqscResult:
    """The result of a script; ``text`` is the transcript as runmqsc prints it."""

    text: str
    commands: tuple[CommandResult, ...]

    @property
    def ok(self) -> bool:
        """Whether every command was carried out."""
        return all(command.ok for command in self.commands)

    @property
    def rows(self) -> list[dict[str, Value]]:
        """One dict an object displayed: keyword to value, words as words, numbers as int."""
        return [row for command in self.commands for row in command.rows]

    @property
    def messages(self) -> list[Message]:
        return [message for command in self.commands for message in command.messages]

    @property
    def codes(self) -> list[str]:
        """The codes of all replies, in order."""
        return [message.code for message in self.messages]

    def __str__(self) -> str:
        return self.text
