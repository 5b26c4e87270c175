"""``mayfly trigger``: start programs when queues have work for them."""

from __future__ import annotations

from typing import Annotated

import typer

from mayfly.cli.managers import Name, PlaceOption, connected
from mayfly.cli.outcomes import group
from mayfly.cli.show import JsonOption, counted, note, print_json
from mayfly.cli.signals import stopping
from mayfly.services.trigger_monitor import TriggerMonitor, TriggerOutcome

trigger = group()

QueueName = Annotated[str, typer.Argument(metavar="INITQ", help="The initiation queue.")]
AtOnce = Annotated[int, typer.Option("--at-once", min=1, help="How many commands run at once.")]


@trigger.callback()
def _trigger() -> None:
    """Make ``trigger`` a group of commands, although it has only one."""


@trigger.command()
def run(
    name: Name,
    queue: QueueName,
    *,
    at_once: AtOnce = 1,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a trigger monitor, as runmqtrm does, until interrupted; then print its counts.

    APPLICID of a process with APPLTYPE(UNIX) is a command line, run without a shell; the MQTMC2 is
    its last argument. The next trigger message is taken when it has ended, or at once with
    ENVRDATA('&'); with --at-once 4, while no more than 3 run. A trigger message that starts nothing
    goes to the dead-letter queue. See docs/LISTENERS.md.

    \b
    Example:
      mayfly trigger run QM1 INITQ --at-once 4
    """
    with (
        connected(name, path, program="mayfly trigger") as connection,
        TriggerMonitor(connection, queue, runs_commands=True, commands_at_once=at_once) as monitor,
        stopping(monitor.stop),
    ):
        note(f"waits for trigger messages on {monitor.queue}; an interrupt ends it")
        monitor.run()
    if as_json:
        print_json({outcome.value: monitor.counts[outcome] for outcome in TriggerOutcome})
    else:
        print(counted(monitor.counts, TriggerOutcome))
