"""A command that has a folder open ends by itself: a server that is to open the folder waits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Final, TypeVar

from mayfly.mqi.errors import FolderInUse
from mayfly.store.folder_lock import holder_of

_T = TypeVar("_T")
_LOG = logging.getLogger("mayfly.serve")
_PATIENCE_SECONDS: Final = 30
_LOOK_SECONDS: Final = 0.05
#: A holder that is not found has just ended, or the machine does not tell it.
_MOST_LOOKS_IN_VAIN: Final = 10


def opened_when_free(opens: Callable[[], _T], folder: Path, pause: Callable[[float], object]) -> _T:
    """Open a folder as soon as no command has it open, and say for which command that waits.

    ``pause`` waits so many seconds. Raises FolderInUse when a command does not end in 30 seconds,
    and at once when the holder is no command of Mayfly.
    """
    waited_for, looks_in_vain = "", 0
    for _look in range(round(_PATIENCE_SECONDS / _LOOK_SECONDS)):
        try:
            return opens()
        except FolderInUse:
            process = holder_of(folder)
            command = "" if process is None else _command_of(process)
            if process is None:
                looks_in_vain += 1
            if (process is not None and not command) or looks_in_vain > _MOST_LOOKS_IN_VAIN:
                raise
        if command and command != waited_for:
            waited_for = command
            _LOG.warning("%s is in use by %s: waits until it ends", folder, command)
        pause(_LOOK_SECONDS)
    said = f"{folder} has been in use by {waited_for} for {_PATIENCE_SECONDS} seconds"
    raise FolderInUse(said, folder)


def _command_of(process: int) -> str:
    """Return the command of Mayfly that a process runs, empty for any other program.

    Only two of its words are told: the text of a message may be among the others.
    """
    try:
        arguments = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
    words = arguments.split("\0")
    for place, word in enumerate(words):
        is_module = word == "mayfly" and words[place - 1] == "-m"
        if is_module or (PurePath(word).name == "mayfly" and place < 2):
            told = [each for each in words[place + 1 :] if each and not each.startswith("-")]
            return f"`{' '.join(['mayfly', *told[:2]])}` (process {process})"
    return ""
