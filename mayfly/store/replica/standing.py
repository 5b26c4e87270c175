"""The file ``replica.json``: what a server says of its part in a replica, for local commands.

It is in the folder of the queue manager, and written anew each second, so that commands need
neither the database nor the lock of the folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from mayfly.runtime.files import FILE_MODE
from mayfly.store.folder_lock import holder_of
from mayfly.store.replica.owner import StandbyLag

STANDING_FILE: Final = "replica.json"
#: Values of ``ReplicaStanding.role``.
OWNER, STANDBY = "owner", "standby"


class ReplicaStanding(NamedTuple):
    """The part of a server in a replica, at ``at_ms`` (ms since 1970, by the clock of its machine).

    ``role`` is OWNER or STANDBY. ``owner`` is the process that owns the queue manager, and
    ``address`` that of its listener for programs; both are empty while nobody owns it, or the
    database does not answer. ``epoch`` is that of the owner. ``row`` is the last row of the log
    that the folder has. A standby lacks ``lag_rows`` rows, and has not been at the end of the log
    for ``lag_ms`` ms; both are 0 at the owner, which has its ``standbys``. The lease was renewed
    ``lease_age_ms`` ms ago, None if that is not known.
    """

    queue_manager: str
    role: str
    owner: str
    address: str
    epoch: int
    row: int
    lag_rows: int
    lag_ms: int
    lease_age_ms: int | None
    standbys: tuple[StandbyLag, ...]
    process_id: int
    at_ms: int

    @property
    def refusal(self) -> str:
        """The text for those who want what only the owner has."""
        return standby_text(self.queue_manager, self.owner, self.address)


def standby_text(queue_manager: str, owner: str, address: str) -> str:
    """Return that a queue manager is a standby here, and who owns it; empty is not known."""
    if not owner:
        return f"{queue_manager} is a standby here; nobody is known to own it"
    place = f" at {address}" if address else ""
    return f"{queue_manager} is a standby here; its owner is {owner}{place}"


def write_standing(folder: Path, standing: ReplicaStanding) -> None:
    """Replace what the file says; it need not outlive a power cut. Raises OSError."""
    new = folder / f"{STANDING_FILE}.new"
    content = standing._asdict() | {"standbys": [each._asdict() for each in standing.standbys]}
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
    new.replace(folder / STANDING_FILE)


def read_standing(folder: Path) -> ReplicaStanding | None:
    """Return what the server of a folder says; None without a server that says something.

    What a server has left that was killed counts for nothing.
    """
    try:
        found: dict[str, Any] = json.loads((folder / STANDING_FILE).read_bytes())
        standbys = tuple(StandbyLag(**each) for each in found.pop("standbys"))
        standing = ReplicaStanding(**found, standbys=standbys)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    # Between two roles nobody holds the folder for a moment.
    holder = holder_of(folder)
    return standing if holder in (None, standing.process_id) and _is_alive(standing) else None


def _is_alive(standing: ReplicaStanding) -> bool:
    """Return True while the process that has written the file exists."""
    try:
        os.kill(standing.process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove_standing(folder: Path) -> None:
    """Remove the file, as the server ends."""
    (folder / STANDING_FILE).unlink(missing_ok=True)
