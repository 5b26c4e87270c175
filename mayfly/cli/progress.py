"""Tells whoever waits at a terminal that a command is at work, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TextIO


@contextmanager
def seconds_told(stderr: TextIO, what: str) -> Iterator[None]:
    """Tell a terminal every second what takes so long, and take it back in the end."""
    if not stderr.isatty():
        yield
        return
    is_over = Event()
    teller = Thread(target=_tell_seconds, args=(stderr, what, is_over), name="mayfly-seconds")
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


def _tell_seconds(stderr: TextIO, what: str, is_over: Event) -> None:
    seconds = 0
    while not is_over.wait(1.0):
        seconds += 1
        stderr.write(f"\r\033[Kmayfly: {what}, {seconds} s")
        stderr.flush()
    if seconds:
        stderr.write("\r\033[K")
        stderr.flush()
