"""The result of a script: messages, rows and the transcript that runmqsc would print."""

from __future__ import annotations

from mayfly.verbs.mqsc_result import CommandResult

_NUMBER_WIDTH = 6
_SMALL = {0: "No", 1: "One"}


def head(manager_name: str) -> str:
    """Return how a transcript begins."""
    return f"Starting MQSC for queue manager {manager_name}.\n"


def echo(lines: tuple[str, ...], number: int | None = None) -> str:
    """Return script lines as the transcript repeats them, the first one numbered if it has one."""
    numbered = [f"{'' if number is None else number:>{_NUMBER_WIDTH}} : {lines[0]}"]
    numbered += [f"{'':>{_NUMBER_WIDTH}} : {line}" for line in lines[1:]]
    return "\n".join(line.rstrip() for line in numbered)


def tail(commands: list[CommandResult]) -> str:
    """Return how a transcript ends: how many commands were read, wrong, not carried out."""
    wrong = sum(not command.is_valid for command in commands)
    failed = sum(command.is_valid and not command.ok for command in commands)
    processed = "All valid MQSC commands were processed."
    if failed:
        processed = f"{_counted(failed, 'valid MQSC command')} could not be processed."
    return "\n".join(
        (
            "",
            f"{_counted(len(commands), 'MQSC command')} read.",
            f"{_counted(wrong, 'command')} {'has' if wrong == 1 else 'have'} a syntax error.",
            processed,
        )
    )


def _counted(count: int, noun: str) -> str:
    return f"{_SMALL.get(count, count)} {noun}{'' if count == 1 else 's'}"
