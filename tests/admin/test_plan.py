"""A script is applied: what differs is altered, attribute by attribute, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.admin.mqsc.export import exported
from mayfly.admin.mqsc.plan import Applied, AttributeChange, ScriptPlan, StepAction, plan

EXPORT = (Path(__file__).parent / "full_export.mqsc").read_text("utf-8")


def applied(manager: QueueManager, script: str, last: Applied | None = None) -> ScriptPlan:
    """Plan a script and carry it out."""
    found = plan(manager.name, manager.mqsc, script, deletes=True, last=last)
    assert found.failing == []
    for step in found.changing:
        assert manager.mqsc(step.command).ok, step
    return found


def outline(found: ScriptPlan) -> list[tuple[str, str]]:
    """Return action and object of each step."""
    return [(step.action.value, step.object) for step in found.steps]


def test_what_differs_is_altered_and_the_rest_stays(queue_manager: QueueManager) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(A.1) MAXDEPTH(7) DESCR('old') CAPEXPRY(600)")
    script = (
        "* queues\n"
        "DEFINE QLOCAL(A.1) MAXDEPTH(8) DESCR('new') NOTRIGGER REPLACE\n"
        "DEF QL(A.2) LIKE(A.1)\n"
        "ALTER QMGR DEADQ(A.2)\n"
    )
    found = plan("QM1", queue_manager.mqsc, script)
    assert queue_manager.mqsc("DISPLAY QLOCAL(A.*) MAXDEPTH").rows[0]["MAXDEPTH"] == 7
    assert found.steps[0].changes == (
        AttributeChange("DESCR", "old", "new"),
        AttributeChange("MAXDEPTH", 7, 8),
    )
    assert found.steps[0].command == "ALTER QLOCAL(A.1) MAXDEPTH(8) DESCR('new')"
    assert outline(found)[1:] == [("define", "QLOCAL(A.2)"), ("alter", "QMGR")]
    applied(queue_manager, script)
    (row,) = queue_manager.mqsc("DISPLAY QLOCAL(A.1) MAXDEPTH DESCR CAPEXPRY").rows
    assert (row["MAXDEPTH"], row["DESCR"], row["CAPEXPRY"]) == (8, "new", 600)
    assert {action for action, _ in outline(plan("QM1", queue_manager.mqsc, script))} == {"same"}


def test_a_subscription_to_a_topic_object_is_the_same_the_second_time(
    queue_manager: QueueManager,
) -> None:
    script = (
        "DEFINE QLOCAL(A)\nDEFINE TOPIC(T) TOPICSTR('a/b')\n"
        "DEFINE SUB(S1) TOPICOBJ(T) TOPICSTR('') DEST(A)\n"
        "DEFINE SUB(S2) TOPICSTR('c') TOPICOBJ(T) DEST(A)\n"
        "DEFINE SUB(S3) TOPICOBJ(T) DEST(A)\n"
    )
    applied(queue_manager, script)
    assert {action for action, _ in outline(applied(queue_manager, script))} == {"same"}
    [step] = plan("QM1", queue_manager.mqsc, "DEFINE SUB(S2) TOPICSTR('d') TOPICOBJ(T)").failing
    assert step.reason == "line 1: TOPICSTR cannot be changed"


@pytest.mark.parametrize(
    ("first", "then", "keyword", "value"),
    [
        ("DEFINE QLOCAL(A.1) EXPQ(DEAD)", "ALTER QLOCAL(A.1) EXPQ(LATE)", "EXPQ", "LATE"),
        ("DEFINE QMODEL(A.1)", "DEFINE QMODEL(A.1) BODELAY(5000)", "BODELAY", 5_000),
        ("DEFINE QLOCAL(A.1)", "ALTER QLOCAL(A.1) DISTL(YES)", "DISTL", "YES"),
        ("ALTER QMGR AUTHCHK(NONE)", "ALTER QMGR DDELAY(SPARK)", "DDELAY", "SPARK"),
        (
            "DEFINE CHANNEL(A) CHLTYPE(SDR) XMITQ(X) CONNAME(h)",
            "ALTER CHANNEL(A) CHLTYPE(SDR) TOKENFILE('/t')",
            "TOKENFILE",
            "/t",
        ),
    ],
    ids=lambda each: str(each).split()[-1],
)
def test_attributes_of_mayfly_and_those_without_effect_are_altered_as_others(
    queue_manager: QueueManager, first: str, then: str, keyword: str, value: str | int
) -> None:
    applied(queue_manager, first)
    [step] = applied(queue_manager, then).steps
    assert step.action is StepAction.ALTER
    assert [(each.attribute, each.new) for each in step.changes] == [(keyword, value)]
    assert outline(applied(queue_manager, then)) == [("same", step.object)]


def test_an_export_of_every_attribute_is_the_same_the_second_time() -> None:
    with QueueManager("GULL") as manager:
        applied(manager, EXPORT)
        first = exported(manager.mqsc)
        assert plan("GULL", manager.mqsc, EXPORT).changing == []
        assert plan("GULL", manager.mqsc, first).changing == []


@pytest.mark.parametrize(
    ("script", "changes"),
    [
        (
            "SET AUTHREC PROFILE(A.1) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(GET)",
            [AttributeChange("AUTHLIST", "BROWSE,PUT", "BROWSE,GET,PUT")],
        ),
        (
            "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('10.*') MCAUSER('bob')",
            [AttributeChange("MCAUSER", "ann", "bob")],
        ),
        (
            "ALTER SETTING(expiry.max_check) VALUE(always)",
            [AttributeChange("VALUE", "1000", "always")],
        ),
    ],
)
def test_rules_authorities_and_settings_are_compared_too(
    queue_manager: QueueManager, script: str, changes: list[AttributeChange]
) -> None:
    queue_manager.mqsc(
        "DEFINE QLOCAL(A.1)\n"
        "SET AUTHREC PROFILE(A.1) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT,BROWSE)\n"
        "SET CHLAUTH(APP) TYPE(ADDRESSMAP) ADDRESS('10.*') MCAUSER('ann')"
    )
    (step,) = applied(queue_manager, script).steps
    assert step.action is StepAction.SET
    assert [change.attribute for change in step.changes] == [each.attribute for each in changes]
    assert [change.new for change in step.changes] == [each.new for each in changes]
    assert outline(plan("QM1", queue_manager.mqsc, script))[0][0] == "same"


def test_nothing_is_deleted_or_started_unless_it_is_allowed(queue_manager: QueueManager) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(A.1)")
    script = "DELETE QLOCAL(A.1)\nDELETE QLOCAL(A.2)\nSTART CHANNEL(TO.QM2)"
    found = plan("QM1", queue_manager.mqsc, script)
    assert [step.action for step in found.steps] == [StepAction.LEFT] * 3
    assert found.steps[0].reason == "nothing is deleted without --delete"
    found = plan("QM1", queue_manager.mqsc, script, deletes=True)
    assert [step.action for step in found.steps] == [
        StepAction.DELETE,
        StepAction.SAME,
        StepAction.LEFT,
    ]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("DEFINE QLOCAL(A.1) MAXDEPHT(1)", "line 1, column 20: MAXDEPHT is not a keyword"),
        ("\nALTER QLOCAL(A.2) MAXDEPTH(1)", "line 2: AMQ8147E"),
        ("DEFINE QALIAS(A.1) TARGET(B)", "line 1: AMQ8150E"),
        ("DEFINE TOPIC(T) TOPICSTR('b')", "line 1: TOPICSTR cannot be changed"),
    ],
)
def test_what_cannot_be_carried_out_says_where_and_why(
    queue_manager: QueueManager, script: str, reason: str
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(A.1)\nDEFINE TOPIC(T) TOPICSTR('a')")
    (step,) = plan("QM1", queue_manager.mqsc, script).failing
    assert reason in step.reason


def test_what_an_operator_altered_is_kept_until_the_script_says_something_else(
    queue_manager: QueueManager,
) -> None:
    script = (
        "DEFINE QLOCAL(A.1) MAXDEPTH(8) DESCR('a')\n"
        "DEFINE QLOCAL(A.2)\n"
        "SET AUTHREC PROFILE(A.1) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)"
    )
    last = applied(queue_manager, script, Applied()).applied
    last = Applied(last.stored())
    queue_manager.mqsc(
        "ALTER QLOCAL(A.1) MAXDEPTH(9)\nDELETE QLOCAL(A.2)\n"
        "DELETE AUTHREC PROFILE(A.1) OBJTYPE(QUEUE) PRINCIPAL('ann')"
    )
    found = plan("QM1", queue_manager.mqsc, script.replace("'a'", "'b'"), last=last)
    kept = [(step.object, step.changes) for step in found.kept]
    assert kept[0] == ("QLOCAL(A.1)", (AttributeChange("MAXDEPTH", 9, 8),))
    assert [each for each, _ in kept[1:]] == [
        "QLOCAL(A.2)",
        "AUTHREC PROFILE(A.1) OBJTYPE(QUEUE) PRINCIPAL('ann')",
    ]
    assert [step.command for step in found.changing] == ["ALTER QLOCAL(A.1) DESCR('b')"]
    again = plan("QM1", queue_manager.mqsc, script.replace("(8)", "(10)"), last=last)
    assert again.changing[0].command == "ALTER QLOCAL(A.1) MAXDEPTH(10)"
    # By hand, without what was said the last time, the script wins.
    assert len(plan("QM1", queue_manager.mqsc, script).changing) == 3
