"""``mayfly apply``: change what differs from a script, and nothing else."""

from __future__ import annotations

from typing import Annotated

import typer

from mayfly.admin.mqsc.plan import PlanStep, ScriptPlan, StepAction, plan
from mayfly.cli.managers import Name, PlaceOption, connected
from mayfly.cli.outcomes import CommandFailed, ExitCode
from mayfly.cli.show import JsonOption, note, print_json
from mayfly.client.connection import Administration
from mayfly.verbs.facts import MqscMessage

Script = Annotated[typer.FileText, typer.Argument(help="The MQSC script; - is stdin.")]
PlanOption = Annotated[
    bool, typer.Option("--plan", help="Change nothing; exit code 1 when something would change.")
]
DeleteOption = Annotated[
    bool, typer.Option("--delete", help="Carry out what the script deletes or removes.")
]


def apply(
    name: Name,
    script: Script,
    *,
    only_plan: PlanOption = False,
    delete: DeleteOption = False,
    path: PlaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change what differs from a script, and nothing else.

    DEFINE of an object that exists alters the attributes that the script names and that differ; all
    others stay. Commands that change nothing are not run: a second run does nothing. The whole
    script is tried on a copy first, and when a command cannot be carried out nothing is changed.
    DISPLAY, START and others that define nothing are left to mayfly mqsc.

    Exit code 0: done, or nothing to do; 1: --plan found changes; 3: the script cannot be applied.

    \b
    Examples:
      mayfly apply QM1 queues.mqsc --plan
      mayfly apply QM1 queues.mqsc
      mayfly apply QM1 queues.mqsc --json --url mqs://mq1.example:1414
    """
    try:
        text = script.read()
    except UnicodeDecodeError as error:
        raise CommandFailed(ExitCode.USAGE, f"the script is not text: {error}") from error
    with connected(name, path, program="mayfly apply", make=not only_plan) as connection:
        administration = Administration(connection.call)
        found = plan(connection.name, administration.mqsc, text, deletes=delete)
        if not found.failing and not only_plan:
            for step in found.changing:
                _check(step, administration.mqsc(step.command).messages)
    is_applied = not found.failing and not only_plan
    if as_json:
        print_json({"applied": is_applied, "steps": [_json(step) for step in found.steps]})
    else:
        _show(found, is_applied=is_applied)
    if found.failing:
        for step in found.failing[1:]:
            note(f"{step.object}: {step.reason}")
        first = found.failing[0]
        raise CommandFailed(ExitCode.MQ, f"nothing is changed: {first.object}: {first.reason}")
    if only_plan and found.changing:
        raise typer.Exit(ExitCode.NOTHING)


def _check(step: PlanStep, messages: list[MqscMessage]) -> None:
    """Raise CommandFailed for a command that failed, although the copy took it."""
    failed = [message for message in messages if not message.is_information]
    if failed:
        raise CommandFailed(ExitCode.MQ, f"{step.object}: {failed[0]}")


def _show(found: ScriptPlan, *, is_applied: bool) -> None:
    """Print what changes, attribute by attribute, and a last line with the counts."""
    for step in found.steps:
        if step.action is StepAction.SAME:
            continue
        print(f"{step.action:<6} {step.object}{f': {step.reason}' if step.reason else ''}")
        for change in step.changes:
            print(f"         {change}")
    same = sum(step.action is StepAction.SAME for step in found.steps)
    verb = "changed" if is_applied else "to change"
    print(f"{len(found.changing)} {verb}, {same} the same")


def _json(step: PlanStep) -> dict[str, object]:
    """Return a step for programs."""
    return {
        "action": step.action.value,
        "object": step.object,
        "command": step.command,
        "changes": [change._asdict() for change in step.changes],
        "reason": step.reason,
    }
