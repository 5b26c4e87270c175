"""SETTING, an extension: platform, command level and settings are shown and altered by MQSC."""

import threading
from pathlib import Path

import pytest

import mayfly
from mayfly import admin
from mayfly.admin import AdminError
from mayfly.engine import PLATFORMS, SETTINGS
from mayfly.mqi import reasons as rc
from mayfly.mqi.command_constants import MQRCCF_ATTR_VALUE_ERROR, MQRCCF_ATTR_VALUE_FIXED
from mayfly.mqi.errors import MQError
from mayfly.testing import VirtualClock
from tests.store.scene import statement

TOO_LONG_MS = 100_000_000_000


def shown(qm: mayfly.QueueManager, name: str) -> tuple[object, object]:
    [row] = qm.mqsc(f"DISPLAY SETTING({name})").rows
    return row["VALUE"], row["DEFAULT"]


@pytest.mark.parametrize("platform", sorted(PLATFORMS))
def test_K_each_setting_is_shown_with_the_default_of_its_platform(platform: str) -> None:
    with mayfly.QueueManager("QM1", platform=platform) as qm:
        rows = qm.mqsc("DISPLAY SETTING(*)").rows
        names = [row["SETTING"] for row in rows]
        assert names == ["platform", "command_level", *(setting.name for setting in SETTINGS)]
        assert rows[0] == {"SETTING": "platform", "VALUE": platform, "DEFAULT": platform}
        assert rows[1] == {"SETTING": "command_level", "VALUE": "940", "DEFAULT": "940"}
        for row, setting in zip(rows[2:], SETTINGS, strict=True):
            default = PLATFORMS[platform].get(setting.name, setting.default)
            text = str(default).lower()
            assert row["VALUE"] == row["DEFAULT"] == text


def test_the_reply_reads_like_those_of_other_objects(qm: mayfly.QueueManager) -> None:
    text = qm.mqsc("DISPLAY SETTING(EXPIRY.MAX_CHECK)\nDIS SETTING(xqh.*) VALUE").text
    assert text.splitlines()[2:13] == [
        "     1 : DISPLAY SETTING(EXPIRY.MAX_CHECK)",
        "MFY1001I: Display setting details.",
        "   SETTING(expiry.max_check)               VALUE(env)",
        "   DEFAULT(env)",
        "     2 : DIS SETTING(xqh.*) VALUE",
        "MFY1001I: Display setting details.",
        "   SETTING(xqh.enforce_format)             VALUE(true)",
        "MFY1001I: Display setting details.",
        "   SETTING(xqh.check_expiry)               VALUE(true)",
        "MFY1001I: Display setting details.",
        "   SETTING(xqh.expiry_conflict)            VALUE(consistent)",
    ]
    found = qm.mqsc("DIS SETTING(*) WHERE(VALUE EQ 'consistent')").rows
    assert [row["SETTING"] for row in found] == ["xqh.expiry_conflict"]


def test_K1_a_setting_that_is_altered_acts_at_once_and_is_kept(
    tmp_path: Path, clock: VirtualClock
) -> None:
    with mayfly.QueueManager("QM1", tmp_path, clock) as qm:
        qm.mqsc("DEFINE QLOCAL(Q)")
        with qm.session() as session:
            session.put("Q", b"x", time_to_live_ms=TOO_LONG_MS)
            assert qm.mqsc("ALTER SETTING(expiry.max_check) VALUE(ALWAYS)").codes == ["MFY1002I"]
            with pytest.raises(MQError) as caught:
                session.put("Q", b"x", time_to_live_ms=TOO_LONG_MS)
            assert caught.value.reason == rc.MQRC_EXPIRY_ERROR
    with mayfly.QueueManager("QM1", tmp_path, clock) as qm:
        assert shown(qm, "expiry.max_check") == ("always", "env")
        assert qm.mqsc("RESET SETTING(expiry.max_check)").ok
        assert shown(qm, "expiry.max_check") == ("env", "env")
    with mayfly.QueueManager("QM1", tmp_path, clock) as qm:
        assert qm.engine.settings.given == {}


def test_K1_the_environment_that_counts_is_that_of_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variable = "AMQ_ENFORCE_MAX_EXPIRY_ERROR"
    monkeypatch.setenv(variable, "")
    with mayfly.QueueManager("QM1") as qm:
        monkeypatch.delenv(variable)
        qm.mqsc("ALTER SETTING(ledger.retention_count) VALUE(7)")
        assert qm.engine.settings.is_maximum_enforced
        assert qm.engine.settings.ledger_retention_count == 7
    with mayfly.QueueManager("QM1") as qm:
        monkeypatch.setenv(variable, "")
        qm.mqsc("ALTER SETTING(ledger.retention_count) VALUE(7)")
        assert not qm.engine.settings.is_maximum_enforced


def test_D5_staged_messages_go_on_when_the_command_level_is_raised(
    qm: mayfly.QueueManager, clock: VirtualClock
) -> None:
    qm.mqsc("DEFINE QLOCAL(Q)")
    with qm.session() as session:
        session.put("Q", b"late", delay_ms=1_000)
        assert qm.mqsc("ALTER SETTING(command_level) VALUE(750)").ok
        assert qm.mqsc("DISPLAY QMGR CMDLEVEL").rows == [{"QMNAME": "QM1", "CMDLEVEL": 750}]
        clock.advance(5_000)
        assert session.get("Q") is None
        with pytest.raises(MQError):
            session.put("Q", b"later", delay_ms=1_000)
        assert qm.mqsc("RESET SETTING(command_level)").ok
        clock.advance(1)
        found = session.get("Q")
        assert found is not None
        assert found.body == b"late"


def test_K_a_platform_is_chosen_for_good(qm: mayfly.QueueManager) -> None:
    result = qm.mqsc("ALTER SETTING(platform) VALUE(zos)")
    assert result.codes == ["AMQ8405E"]
    assert result.messages[0].body.endswith(
        "line 1, column 25: platform 'zos': this queue manager was made for 'distributed', "
        "and a platform does not change"
    )
    assert qm.mqsc("ALTER SETTING(PLATFORM) VALUE(DISTRIBUTED)\nRESET SETTING(platform)").ok
    assert qm.engine.platform == "distributed"
    with pytest.raises(AdminError) as caught:
        admin.alter_setting(qm.engine, "platform", "ibmi")
    assert (caught.value.reason, caught.value.value) == (MQRCCF_ATTR_VALUE_FIXED, "ibmi")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("ALTER SETTING(expiry.max_check) VALUE(maybe)", "'MAYBE' is not one of env, always"),
        ("ALTER SETTING(command_level) VALUE(0)", "command_level 0 is not a positive number"),
        ("ALTER SETTING(command_level) VALUE('x')", "command_level 'x' is not a positive number"),
        ("ALTER SETTING(ledger.retention_count) VALUE(-1)", "'-1' is not a positive number"),
        ("ALTER SETTING(ledger.retention_count) VALUE('²')", "'²' is not a positive number"),
        ("ALTER SETTING(platform) VALUE(vms)", "platform 'vms' is not one of"),
        ("ALTER SETTING(expiry.max_check)", "VALUE is missing"),
        ("ALTER SETTING(expiry.max_check) VALUE(env) X(1)", "X is not a keyword of ALTER SETTING"),
        ("ALTER SETTING VALUE(env)", "SETTING needs a value in parentheses"),
        ("RESET SETTING(expiry.max_check) VALUE(env)", "VALUE is not a keyword of RESET SETTING"),
        ("DISPLAY SETTING(*) CURDEPTH", "CURDEPTH is not a keyword of SETTING"),
        ("DEFINE SETTING(x) VALUE(1)", "DEFINE knows"),
    ],
)
def test_a_wrong_command_changes_nothing_and_says_what_is_wrong(
    qm: mayfly.QueueManager, command: str, said: str
) -> None:
    before = qm.mqsc("DISPLAY SETTING(*)").rows
    result = qm.mqsc(command)
    assert result.codes == ["AMQ8405E"]
    assert said in result.messages[0].body
    assert qm.mqsc("DISPLAY SETTING(*)").rows == before


@pytest.mark.parametrize("verb", ["ALTER SETTING({}) VALUE(1)", "RESET SETTING({})"])
def test_an_unknown_setting_is_not_found(qm: mayfly.QueueManager, verb: str) -> None:
    result = qm.mqsc(verb.format("expiry.max"))
    assert (result.codes, result.messages[0].reason) == (
        ["AMQ8147E"],
        rc.MQRC_UNKNOWN_OBJECT_NAME,
    )
    assert qm.mqsc("DISPLAY SETTING(expiry.max)").codes == ["AMQ8147E"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("expiry.max_check", 5), ("ledger.retention_count", True), ("command_level", "800")],
)
def test_a_value_of_another_type_is_refused(
    qm: mayfly.QueueManager, name: str, value: int | str
) -> None:
    with pytest.raises(AdminError) as caught:
        admin.alter_setting(qm.engine, name, value)
    assert (caught.value.reason, caught.value.value) == (MQRCCF_ATTR_VALUE_ERROR, value)


def test_alterations_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    values = {"expiry.max_check": "never", "xqh.expiry_conflict": "allow", "command_level": 900}
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        threads = [
            threading.Thread(target=admin.alter_setting, args=(qm.engine, name, value))
            for name, value in values.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        assert [shown(qm, name)[0] for name in values] == ["never", "allow", "900"]


def test_K_a_folder_of_before_keeps_its_choice_of_a_platform(tmp_path: Path) -> None:
    """It has none yet: a setting that is altered does not choose one for it."""
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        qm.engine.store.commit([statement("DELETE FROM meta WHERE name = 'configuration'")])
    with mayfly.QueueManager("QM1", tmp_path) as qm:
        qm.engine.store.commit([statement("DELETE FROM meta WHERE name = 'configuration'")])
        qm.mqsc("ALTER SETTING(expiry.max_check) VALUE(always)")
    with mayfly.QueueManager("QM1", tmp_path, platform="ibmi") as qm:
        assert (qm.engine.platform, shown(qm, "expiry.max_check")[0]) == ("ibmi", "always")
