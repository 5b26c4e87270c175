"""``mayfly verify``, ``compact``, ``backup`` and ``restore``: the folder of a queue manager."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from mayfly import __version__
from mayfly.cli.managers import (
    FolderOption,
    Name,
    PlaceOption,
    connected,
    existing_folder,
    is_remote,
)
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import JsonOption, moment, note, print_json
from mayfly.cli.signals import stopping
from mayfly.cli.values import local_path, moment_ms
from mayfly.client.connection import Administration
from mayfly.lifetime.times import SECOND_MS
from mayfly.queue_manager import QueueManager
from mayfly.runtime import Runtime, SystemClock, VirtualClock
from mayfly.store.backup.copying import Copied, Copier
from mayfly.store.backup.objects import Secrets, secret_names
from mayfly.store.backup.restoring import Plan, plan_of
from mayfly.store.backup.restoring import restore as restore_folder
from mayfly.store.replica.lease import LEASE_MS
from mayfly.store.replica.owner import opened_replica

AcceptOption = Annotated[
    bool,
    typer.Option(
        "--accept-restored",
        help="The folder was restored or copied on purpose: take its database as it is, although "
        "it holds less than identity.json says, or is not the file that Mayfly has written.",
    ),
]


def verify(
    name: Name,
    *,
    accept_restored: AcceptOption = False,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prove that no message is lost or counted twice, and that no file is damaged.

    Recounts every queue: each message that was put has ended or is present. Reads every file of
    the folder. Exit code 1 when something is wrong.

    \b
    Example:
      mayfly verify QM1
    """
    if accept_restored:
        _accept_restored(name, path)
    with connected(name, path, program="mayfly verify") as connection:
        report = Administration(connection.call).verify()
    if as_json:
        print_json(report._asdict())
    else:
        for problem in report.problems:
            print(problem)
        if report.ok:
            print(f"{name} is in order: {report.messages} messages on {report.queues} queues")
    if not report.ok:
        raise CommandFailed(ExitCode.NOTHING, f"{len(report.problems)} problems in {name}")


def _accept_restored(name: str, place: str | None) -> None:
    """Accept a database that was restored and is older than ``identity.json`` says.

    ``place`` is the folder, None the usual one. Raises CommandFailed for a URL, FolderInUse if a
    process has the folder open.
    """
    from mayfly.store.restoring import accept_restored

    if place is not None and is_remote(place):
        raise CommandFailed(
            ExitCode.USAGE, "--accept-restored is for a folder that nobody has open"
        )
    accept_restored(existing_folder(name, None if place is None else local_path(place)), name)


def compact(
    name: Name,
    *,
    path: FolderOption = None,
    replica: Annotated[
        str | None,
        typer.Option(
            "--replica", metavar="URL", help="The database of its replica, if it has one."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Give the disk back what the database no longer needs, and its pages checksums.

    No process may have the queue manager open. The database is replaced only at the end; until then
    the disk needs space for a second one. With a replica it needs space for two, and all pages go
    to the log again.

    \b
    Examples:
      mayfly compact QM1
      mayfly compact QM1 --replica postgresql://mayfly@db.example/queues
    """
    from mayfly.store.restoring import compact as compact_folder
    from mayfly.store.restoring import compact_replicated

    folder = existing_folder(name, path)
    if replica is None:
        found = compact_folder(folder, name)
    else:
        owned = opened_replica(replica, name, Runtime(), LEASE_MS)
        found = compact_replicated(folder, name, owned)
    if as_json:
        print_json(found._asdict())
        return
    checksums = "with" if found.is_protected else "without"
    print(
        f"{name}: {found.bytes_before:,} bytes before, {found.bytes_after:,} now, "
        f"{checksums} checksums"
    )


# mayfly backup and restore


PASSPHRASE_VARIABLE: Final = "MAYFLY_BACKUP_PASSPHRASE"
Place = Annotated[
    str,
    typer.Argument(
        metavar="FOLDER|URL", help="Where the backup is: a folder, or s3://BUCKET/PREFIX."
    ),
]
PassphraseOption = Annotated[
    Path | None,
    typer.Option(
        "--passphrase-file",
        parser=local_path,
        metavar="FILE",
        help=f"Its first line seals users and keys; or set {PASSPHRASE_VARIABLE}.",
    ),
]


def backup(
    name: Name,
    place: Place,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on: copy each commit within a second.")
    ] = False,
    passphrase_file: PassphraseOption = None,
    without_secrets: Annotated[
        bool, typer.Option("--without-secrets", help="Leave out users, keys, passwords and token.")
    ] = False,
    path: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a queue manager to a folder or an object store while it works.

    Programs go on meanwhile. A backup that was broken off is never restored, and the next one
    writes only what has changed since. --follow runs until it is interrupted.

    \b
    Examples:
      mayfly backup QM1 /backups/QM1
      mayfly backup QM1 s3://backups/QM1 --follow
    """
    folder = existing_folder(name, path)
    passphrase = None if without_secrets else _passphrase(passphrase_file)
    secret = secret_names(folder)
    if secret and passphrase is None and not without_secrets:
        raise CommandFailed(
            ExitCode.USAGE,
            f"{', '.join(secret)} hold secrets: give --passphrase-file or {PASSPHRASE_VARIABLE} to "
            "seal them, or --without-secrets",
        )
    copier = Copier(folder, name, place, Secrets(passphrase), __version__)
    with _percent(f"copying {name}") as say, stopping(copier.stop):
        if follow:
            copier.follow(say, lambda copied: _show_copied(name, place, copied, as_json=as_json))
        else:
            _show_copied(name, place, copier.back_up(say), as_json=as_json)


def restore(
    place: Place,
    folder: Annotated[Path, typer.Argument(parser=local_path, help="The folder to make.")],
    *,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="MOMENT",
            help="As it was then: 14:05 of today or yesterday, or 2026-11-20T18:00:00Z (UTC).",
        ),
    ] = None,
    same_instance: Annotated[
        bool,
        typer.Option("--same-instance", help="Go on as the queue manager that was backed up."),
    ] = False,
    accept_restored: Annotated[
        bool,
        typer.Option(
            "--accept-restored",
            help="Accept that messages that were got since are there again.",
        ),
    ] = False,
    passphrase_file: PassphraseOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be restored, and write nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make the folder of a queue manager from a backup, and verify it.

    A new instance is another queue manager with the same messages: its ledger goes into a lake
    beside that of the first. With --same-instance it goes on as the one that was backed up, whose
    folder must never be opened again.

    \b
    Examples:
      mayfly restore /backups/QM1 /qm/QM1
      mayfly restore s3://backups/QM1 /qm/QM1 --as-of 14:05 --dry-run
    """
    plan = plan_of(place, None if as_of is None else _as_of_ms(as_of))
    if same_instance and not (accept_restored or dry_run):
        raise CommandFailed(
            ExitCode.USAGE,
            f"what {plan.epoch.queue_manager} has done since {moment(plan.until_ms)} UTC is not in "
            "the backup: messages that were got since are there again, and what was put since is "
            "lost. Its ledger and channels go on from there. If that is wanted, and the old folder "
            "is never opened again: --accept-restored",
        )
    if dry_run:
        _show_plan(plan, folder, same_instance=same_instance, as_json=as_json)
        return
    with _percent(f"restoring {plan.epoch.queue_manager}") as say:
        found = restore_folder(
            place,
            plan,
            folder,
            is_new_instance=not same_instance,
            passphrase=_passphrase(passphrase_file),
            say=say,
        )
    # Under a clock that stands still nothing is released, discarded or sent.
    clock = VirtualClock(SystemClock().now_ms())
    with QueueManager(plan.epoch.queue_manager, folder, clock) as queue_manager:
        report = queue_manager.verify()
    if as_json:
        print_json(
            _plan_json(plan, folder, same_instance=same_instance)
            | {"instance": found.instance, "files": found.files, "verify": report._asdict()}
        )
    else:
        print(
            f"{plan.epoch.queue_manager} is in {folder} as of {moment(found.until_ms)} UTC: "
            f"{report.messages} messages on {report.queues} queues"
        )
        for problem in report.problems:
            print(problem)
    for left_out in found.left_out:
        note(f"{left_out} is not in the backup")
    if not report.ok:
        raise CommandFailed(ExitCode.NOTHING, f"{len(report.problems)} problems in {folder}")


def _show_copied(name: str, place: str, copied: Copied, *, as_json: bool) -> None:
    """Print the place, time and size of a completed backup, and the files that it lacks."""
    if as_json:
        fields = {"queue_manager": name, "place": place, "mayfly": __version__}
        print_json(fields | copied._asdict(), indent=None)
    else:
        print(
            f"{name} is in {place} as of {moment(copied.safe_at_ms)} UTC: {copied.page_count:,} "
            f"pages and {copied.change_count:,} changes, {copied.object_bytes:,} bytes written",
            flush=True,
        )
    for left_out in copied.left_out:
        note(f"{left_out} is not in the backup")


def _plan_json(plan: Plan, folder: Path, *, same_instance: bool) -> dict[str, object]:
    """Return what a restore takes from a backup, for JSON."""
    return {
        "queue_manager": plan.epoch.queue_manager,
        "folder": str(folder),
        "as_of_ms": plan.until_ms,
        "image_at_ms": plan.epoch.whole_at_ms,
        "changes": len(plan.changes),
        "same_instance": same_instance,
        "left_out": list(plan.epoch.left_out),
    }


def _show_plan(plan: Plan, folder: Path, *, same_instance: bool, as_json: bool) -> None:
    """Print what a restore with --dry-run would write into ``folder``: instance, time, changes."""
    if as_json:
        print_json(_plan_json(plan, folder, same_instance=same_instance))
        return
    kind = "the same instance" if same_instance else "a new instance"
    rows = [
        ("queue manager", plan.epoch.queue_manager),
        ("into", f"{folder}, as {kind}"),
        ("as of", f"{moment(plan.until_ms)} UTC"),
        ("image of", f"{moment(plan.epoch.whole_at_ms)} UTC, written by {plan.epoch.mayfly}"),
        ("changes", f"{len(plan.changes):,}"),
        ("left out", ", ".join(plan.epoch.left_out) or "nothing"),
    ]
    for title, value in rows:
        print(f"{title:<14} {value}")
    note("nothing was written: --dry-run")


def _passphrase(file: Path | None) -> str | None:
    """Return the passphrase of a file or the variable; None without both.

    Raises CommandFailed when it is empty, OSError.
    """
    if file is None:
        return os.environ.get(PASSPHRASE_VARIABLE) or None
    passphrase = file.read_text("utf-8").partition("\n")[0]
    if not passphrase:
        raise CommandFailed(ExitCode.USAGE, f"{file}: its first line is empty")
    return passphrase


def _as_of_ms(text: str) -> int:
    """Return a moment in ms since 1970; a time alone is that of the last 24 hours (UTC).

    Raises BadParameter.
    """
    try:
        at = time.fromisoformat(text.strip())
    except ValueError:
        return moment_ms(text)
    now_ms = SystemClock().now_ms()
    now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms)
    day: date = now.date()
    asked = datetime.combine(day, at, UTC)
    if asked > now:
        asked -= timedelta(days=1)
    return round(asked.timestamp() * SECOND_MS)


@contextmanager
def _percent(what: str) -> Iterator[Callable[[int, int], None]]:
    """Return a context with a function that shows progress on a terminal, and none in a pipe."""
    is_terminal = sys.stderr.isatty()

    def say(done: int, total: int) -> None:
        """Show ``done`` of ``total`` in percent on a terminal, in place of the last value."""
        if is_terminal:
            print(f"\r{what}: {100 * done // max(total, 1)} %\x1b[K", end="", file=sys.stderr)

    yield say
    if is_terminal:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
