"""Changes of many seconds become one a minute, and are restored as of moments before and behind."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.runtime import SystemClock
from mayfly.store.backup import copying
from mayfly.store.backup.copying import Copied, Copier
from mayfly.store.backup.objects import ChangeName, EpochContents, FolderPlace, Secrets, read_epoch
from mayfly.store.backup.restoring import plan_of, restore
from mayfly.store.followers import followers_of
from tests.facts import wait_until

MINUTE_MS = 60_000


class AheadClock:
    """The clock of this machine, which the test sets ahead."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return SystemClock().now_ms() + self.ahead_ms


@contextmanager
def putting(folder: Path) -> "Iterator[subprocess.Popen[str]]":
    """A process that has the folder open and puts what it is told, for a block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.backup.one_by_one", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def following(folder: Path, place: Path, whole: list[Copied]) -> Iterator[None]:
    """A copier that follows a folder for a block, and appends what it says to ``whole``."""
    copier = Copier(folder, "QM1", str(place), Secrets(None), "0")
    thread = threading.Thread(target=copier.follow, args=(lambda _done, _all: None, whole.append))
    thread.start()
    try:
        yield
    finally:
        copier.stop()
        thread.join()


def is_safe(folder: Path, at_ms: int) -> bool:
    """Return whether all that was committed before a moment is where the folder is copied to."""
    return followers_of(folder)[0].safe_at_ms > at_ms


def restored_as_of(place: Path, folder: Path, as_of_ms: int | None) -> list[bytes]:
    """Restore a moment, and return what is on Q1 then."""
    restore(
        str(place),
        plan_of(str(place), as_of_ms),
        folder,
        is_new_instance=True,
        passphrase=None,
        say=lambda _done, _all: None,
    )
    with QueueManager("QM1", folder) as qm:
        assert qm.verify().ok
        return [message.body for message in qm.session().browse("Q1")]


def test_changes_of_a_minute_become_one_and_its_beginning_and_end_are_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, place, clock = tmp_path / "QM1", tmp_path / "place", AheadClock()
    monkeypatch.setattr(copying, "SystemClock", lambda: clock)
    whole: list[Copied] = []

    def changes() -> dict[int, list[ChangeName]]:
        """Return the changes by the minute in which they were written, those of the image aside."""
        contents = EpochContents(FolderPlace(place))
        [began_ms] = contents.whole
        first_whole = read_epoch(FolderPlace(place), began_ms).first_whole
        found: dict[int, list[ChangeName]] = {}
        for change in contents.changes_of(began_ms):
            if change.last > first_whole:
                found.setdefault(change.until_ms // MINUTE_MS * MINUTE_MS, []).append(change)
        return found

    def to_next_minute() -> int:
        """Set the clock to the beginning of a minute, and return that."""
        clock.ahead_ms += MINUTE_MS - clock.now_ms() % MINUTE_MS
        return clock.now_ms() // MINUTE_MS * MINUTE_MS

    with putting(folder) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # The image is made in the minute of the first messages.
        begins_ms = [to_next_minute()]
        with following(folder, place, whole):
            wait_until(lambda: whole)
            for minute in range(3):
                for part in range(3):
                    process.stdin.write(f"{minute}{part}\n")
                    process.stdin.flush()
                    assert process.stdout.readline() == f"{minute}{part}\n"
                    at_ms = clock.now_ms()
                    wait_until(partial(is_safe, folder, at_ms))
                    clock.ahead_ms += 5_000
                begins_ms.append(to_next_minute())
            # Each message is a change of its own, or shares one with what is written beside it.
            assert all(len(changes()[at_ms]) >= 3 for at_ms in begins_ms[:3])
            parts = changes()
            clock.ahead_ms += 11 * MINUTE_MS
            # A restore that looked before the merge still finds every change that it then saw.
            wait_until(lambda: all({*parts[ms]} < {*changes()[ms]} for ms in begins_ms[:3]))
            assert all(len(changes()[ms]) == len(parts[ms]) + 1 for ms in begins_ms[:3])
        # One that goes on later removes them.
        with following(folder, place, whole):
            wait_until(lambda: len(whole) == 2)
            clock.ahead_ms += 10 * MINUTE_MS
            wait_until(lambda: all(len(changes()[at_ms]) == 1 for at_ms in begins_ms[:3]))
    [_first], [of_second], [_third] = (changes()[at_ms] for at_ms in begins_ms[:3])
    [image, _resumed] = whole
    first, second, third = (
        [f"{minute}{part}".encode() for part in range(3)] for minute in range(3)
    )
    asked = {
        "image": (image.safe_at_ms, []),
        "end of 1": (begins_ms[1], first),
        "within 2": (of_second.until_ms - 1, first),
        "end of 2": (of_second.until_ms, [*first, *second]),
        "behind": (None, [*first, *second, *third]),
    }
    found = {
        name: restored_as_of(place, tmp_path / name, as_of_ms)
        for name, (as_of_ms, _bodies) in asked.items()
    }
    assert found == {name: bodies for name, (_as_of_ms, bodies) in asked.items()}
