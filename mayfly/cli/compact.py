"""``mayfly compact``: write the database of a queue manager anew, without gaps, with checksums."""

from __future__ import annotations

from mayfly.cli.managers import FolderOption, JsonOption, Name, existing_folder
from mayfly.cli.show import print_json


def compact(name: Name, *, path: FolderOption = None, as_json: JsonOption = False) -> None:
    """Give the disk back what the database no longer needs, and its pages checksums.

    No process may have the queue manager open. Until the end nothing changes; meanwhile the disk
    needs room for a second database.

    \b
    Example:
      mayfly compact QM1
    """
    from mayfly.store.restoring import compact as compact_folder

    found = compact_folder(existing_folder(name, path), name)
    if as_json:
        print_json(found._asdict())
        return
    checksums = "with" if found.is_protected else "without"
    print(
        f"{name}: {found.bytes_before:,} bytes before, {found.bytes_after:,} now, "
        f"{checksums} checksums"
    )
