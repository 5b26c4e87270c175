"""``mayfly verify``: prove that counters, totals and messages of a store agree."""

from __future__ import annotations

from mayfly.cli.managers import JsonOption, Name, PlaceOption, operated
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import print_json


def verify(name: Name, *, path: PlaceOption = None, as_json: JsonOption = False) -> None:
    """Prove that no message is lost or counted twice.

    Recounts every queue: what was put has ended or is present. Exit code 1 when that is not so.

    \b
    Example:
      mayfly verify QM1
    """
    with operated(name, path) as queue_manager:
        report = queue_manager.verify()
    if as_json:
        print_json(report._asdict())
    else:
        for problem in report.problems:
            print(problem)
        if report.ok:
            print(f"{name} is in order: {report.messages} messages on {report.queues} queues")
    if not report.ok:
        raise CommandFailed(ExitCode.NOTHING, f"{len(report.problems)} problems in {name}")
