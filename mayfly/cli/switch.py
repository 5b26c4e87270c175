"""``mayfly switch``: let a standby become the owner of a queue manager."""

from __future__ import annotations

from threading import Event
from typing import Annotated, Final

import typer

from mayfly.cli.managers import Name
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import JsonOption, print_json
from mayfly.runtime import Runtime, elapsed_ms
from mayfly.store.replica.log import Ownership, PostgresLog

_LOOK_SECONDS: Final = 0.02


def switch(
    name: Name,
    *,
    replica: Annotated[
        str, typer.Option("--replica", metavar="URL", help="The database of its replica.")
    ],
    wait: Annotated[
        int, typer.Option("--wait", min=1, metavar="SECONDS", help="How long to wait for it.")
    ] = 30,
    as_json: JsonOption = False,
) -> None:
    """Let a standby become the owner of a queue manager, and wait until it is.

    The present owner lets programs end their work for 0.3 seconds, closes the queue manager and
    follows from then on. No persistent message is lost, and what is not committed is backed out.
    Messages that are not persistent are gone, as at any restart. Exit code 1 when no standby
    follows.

    \b
    Example:
      mayfly switch QM1 --replica postgresql://mayfly@db.example/queues
    """
    log = PostgresLog(replica, name, Runtime())
    try:
        before = log.standing()
        if before is None:
            raise CommandFailed(ExitCode.NOTHING, f"{name} has no replica in this database")
        standbys = log.standbys(before.instance)
        if not standbys:
            raise CommandFailed(ExitCode.NOTHING, f"no standby follows {name}: nothing is changed")
        began_ms = elapsed_ms()
        log.want(before.epoch, is_wanted=True)
        after = _next_owner(log, before, wait)
        took_ms = elapsed_ms() - began_ms
    finally:
        log.close()
    if as_json:
        print_json(
            {
                "queue_manager": name,
                "owner": after.owner,
                "epoch": after.epoch,
                "took_ms": took_ms,
            }
        )
    else:
        print(f"{name} is owned by {after.owner}, after {took_ms} ms")


def _next_owner(log: PostgresLog, before: Ownership, wait_seconds: int) -> Ownership:
    """Wait until another owner listens, and return its ownership; ``before`` is the present one.

    Raises CommandFailed after ``wait_seconds``; the request to the present owner is withdrawn then.
    """
    pause = Event()
    for _ in range(round(wait_seconds / _LOOK_SECONDS)):
        pause.wait(_LOOK_SECONDS)
        now = log.standing()
        if now is not None and now.epoch != before.epoch and now.addresses:
            return now
    log.want(before.epoch, is_wanted=False)
    text = f"{before.owner} has not given {log.manager_name} up within {wait_seconds} seconds"
    raise CommandFailed(ExitCode.PIPELINE, text)
