"""Platform, command level and settings belong to the queue manager: its folder keeps them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mayfly import QueueManager, pymqi
from mayfly.engine import PLATFORMS, SETTINGS, SettingValue
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import StoreError
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock
from tests.over import NewSession
from tests.spec.remote_scene import transit
from tests.spec.scene import local, put_expiry, refused
from tests.store.scene import statement

ALWAYS = {"expiry.max_check": "always"}
DEFAULTS = {setting.name: setting.default for setting in SETTINGS}
TOO_LONG_TENTHS = 1_000_000_000


def other_than_default() -> dict[str, SettingValue]:
    """Return a value for every setting that is not its default."""
    return {
        s.name: 7 if s.choices is None else next(v for v in s.choices if v != s.default)
        for s in SETTINGS
    }


@pytest.mark.in_process
def test_K_what_is_given_is_kept_in_the_folder(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    given = other_than_default()
    with QueueManager(
        "QM1", tmp_path, clock, platform="zos", command_level=750, settings=given
    ) as qm:
        assert qm.engine.settings.in_force == given
    with QueueManager("QM1", tmp_path, clock) as qm:
        assert (qm.engine.platform, qm.engine.command_level) == ("zos", 750)
        assert qm.engine.settings.in_force == given
        local(qm)
        with new_session(qm) as session, refused(rc.MQRC_EXPIRY_ERROR):
            put_expiry(session, "Q1", TOO_LONG_TENTHS)


def test_K_what_is_given_later_alters_that_and_leaves_the_rest(
    tmp_path: Path, clock: VirtualClock
) -> None:
    with QueueManager("QM1", tmp_path, clock, command_level=750, settings=ALWAYS):
        pass
    with QueueManager("QM1", tmp_path, clock, settings={"ledger.retention_count": 5}):
        pass
    with QueueManager("QM1", tmp_path, clock, command_level=800) as qm:
        assert qm.engine.settings.in_force == {**DEFAULTS, **ALWAYS, "ledger.retention_count": 5}
    with QueueManager("QM1", tmp_path, clock, settings={"expiry.max_check": "env"}) as qm:
        assert qm.engine.settings.in_force == {**DEFAULTS, "ledger.retention_count": 5}
        assert qm.engine.command_level == 800


@pytest.mark.parametrize("made_for", sorted(PLATFORMS))
def test_K_a_platform_does_not_change(tmp_path: Path, clock: VirtualClock, made_for: str) -> None:
    with QueueManager("QM1", tmp_path, clock, platform=made_for):
        pass
    for other in PLATFORMS.keys() - {made_for}:
        with pytest.raises(ValueError, match=f"platform '{other}'.*made for '{made_for}'"):
            QueueManager("QM1", tmp_path, clock, platform=other, settings=ALWAYS)
    with QueueManager("QM1", tmp_path, clock, platform=made_for) as qm:
        # What was refused has altered nothing.
        assert qm.engine.settings.in_force == {**DEFAULTS, **PLATFORMS[made_for]}


def test_K_a_folder_of_before_opens_with_the_defaults_and_takes_a_platform(
    tmp_path: Path, clock: VirtualClock
) -> None:
    with QueueManager("QM1", tmp_path, clock) as qm:
        qm.engine.store.commit([statement("DELETE FROM meta WHERE name = 'configuration'")])
    with QueueManager("QM1", tmp_path, clock) as qm:
        assert (qm.engine.platform, qm.engine.command_level) == ("distributed", 940)
        assert qm.engine.settings.in_force == DEFAULTS
    with QueueManager("QM1", tmp_path, clock, platform="ibmi"):
        pass
    with QueueManager("QM1", tmp_path, clock) as qm:
        assert qm.engine.platform == "ibmi"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"platform": "vms"}, "platform 'vms'"),
        ({"command_level": 0}, "command_level 0"),
        ({"command_level": "940"}, "command_level '940'"),
        ({"settings": {"expiry.maximum": "env"}}, "expiry.maximum"),
    ],
)
def test_K_a_wrong_configuration_is_refused_before_a_folder_is_made(
    tmp_path: Path, given: dict[str, object], said: str
) -> None:
    folder = tmp_path / "QM1"
    with pytest.raises(ValueError, match=said):
        QueueManager("QM1", folder, **given)  # type: ignore[arg-type]  # wrong on purpose
    assert not folder.exists()


def test_K_a_setting_of_a_later_mayfly_is_named(tmp_path: Path, clock: VirtualClock) -> None:
    newer = """UPDATE meta SET value = '{"settings": {"expiry.next": 1}}'
        WHERE name = 'configuration'"""
    with QueueManager("QM1", tmp_path, clock) as qm:
        qm.engine.store.commit([statement(newer)])
    with pytest.raises(StoreError, match=r"newer Mayfly.*expiry\.next"):
        QueueManager("QM1", tmp_path, clock)


def test_K_the_settings_of_the_folder_count_for_pymqi(tmp_path: Path) -> None:
    with QueueManager("QM1", tmp_path / "QM1", settings=ALWAYS) as qm:
        local(qm)
    with QueueManager("QM1", tmp_path / "QM1"):
        connection = pymqi.connect("QM1")
        with pytest.raises(pymqi.MQMIError) as caught:
            pymqi.Queue(connection, "Q1").put(b"x", pymqi.MD(Expiry=TOO_LONG_TENTHS))
        assert caught.value.reason == CMQC.MQRC_EXPIRY_ERROR
        connection.disconnect()


# The platform of seed 001


def ibmi(clock: VirtualClock, **settings: SettingValue) -> QueueManager:
    """Return a queue manager of IBM i with a transmission queue."""
    named = {f"xqh.{name}": value for name, value in settings.items()}
    qm = QueueManager("QMI", None, clock, platform="ibmi", settings=named)
    assert qm.mqsc("DEFINE QLOCAL(XMIT) USAGE(XMITQ)\nDEFINE QLOCAL(Q1)").ok
    return qm


def put_xmit(qm: QueueManager, body: bytes, **fields: object) -> None:
    """Put on the transmission queue as a pymqi program does."""
    connection = pymqi.connect("QMI")
    pymqi.Queue(connection, "XMIT").put(body, pymqi.MD(**fields))
    connection.disconnect()


def test_K1_K3_K4_K5_K6_ibmi_sets_the_four_switches_together(clock: VirtualClock) -> None:
    with ibmi(clock) as qm:
        assert {name: qm.engine.settings.in_force[name] for name in PLATFORMS["ibmi"]} == {
            "expiry.max_check": "never",
            "xqh.enforce_format": False,
            "xqh.check_expiry": False,
            "xqh.expiry_conflict": "allow",
        }
        assert qm.mqsc("DISPLAY QMGR PLATFORM").rows[0]["PLATFORM"] == "OS400"
        connection = pymqi.connect("QMI")
        assert connection.inquire(CMQC.MQIA_PLATFORM) == c.MQPL_OS400
        connection.disconnect()


def test_K3_K5_ibmi_does_not_enforce_what_stands_on_a_transmission_queue(
    clock: VirtualClock,
) -> None:
    with ibmi(clock) as qm:
        put_xmit(qm, b"no header")
        put_xmit(qm, b"too short", Format=CMQC.MQFMT_XMIT_Q_HEADER)
        assert qm.curdepth("XMIT") == 2


def test_K4_K6_ibmi_takes_any_pair_of_expiries(clock: VirtualClock) -> None:
    with ibmi(clock) as qm:
        for outer, inner_tenths in ((-1, 600), (600, -1), (600, 0), (600, 5_000)):
            put_xmit(
                qm, transit(Expiry=inner_tenths), Format=CMQC.MQFMT_XMIT_Q_HEADER, Expiry=outer
            )
        assert qm.curdepth("XMIT") == 4


@pytest.mark.in_process
def test_E2_zero_fails_on_ibmi_as_well(clock: VirtualClock, new_session: NewSession) -> None:
    """Seed 001: with an MDEXP of zero the call fails with RC2013."""
    with ibmi(clock) as qm, new_session(qm) as session:
        with refused(rc.MQRC_EXPIRY_ERROR):
            put_expiry(session, "Q1", 0)
        put_expiry(session, "Q1", TOO_LONG_TENTHS)


@pytest.mark.in_process
def test_K1_ibmi_has_no_maximum_whatever_the_environment_says(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, new_session: NewSession
) -> None:
    monkeypatch.setenv("AMQ_ENFORCE_MAX_EXPIRY_ERROR", "1")
    with ibmi(clock) as qm, new_session(qm) as session:
        put_expiry(session, "Q1", TOO_LONG_TENTHS)


def test_K3_a_setting_that_is_given_wins_over_the_platform(clock: VirtualClock) -> None:
    with ibmi(clock, enforce_format=True) as qm:
        with pytest.raises(pymqi.MQMIError) as caught:
            put_xmit(qm, b"no header")
        assert caught.value.reason == CMQC.MQRC_XQH_ERROR
        assert qm.engine.settings.in_force["xqh.expiry_conflict"] == "allow"


# docs/SETTINGS.md

DOCS = (Path(__file__).parents[2] / "docs/SETTINGS.md").read_text("utf-8")


def test_the_program_in_the_documentation_prints_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [(program, said)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", DOCS, re.DOTALL)
    exec(compile(program, "SETTINGS.md", "exec"), {})
    assert capsys.readouterr().out == said


def test_the_table_has_every_setting_with_its_defaults_and_values() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| (\S+) \| (\S*) ?\| (.+?) \|", DOCS, re.MULTILINE)
    described = {name: rest for name, *rest in rows if "." in name}
    assert described.keys() == DEFAULTS.keys()
    for setting in SETTINGS:
        default, on_ibmi, others = described[setting.name]
        assert default.strip("`") == str(setting.default).lower()
        changed = PLATFORMS["ibmi"].get(setting.name)
        assert on_ibmi.strip("`") == ("" if changed is None else str(changed).lower())
        if setting.choices is not None:
            listed = {
                str(choice).lower() for choice in setting.choices if choice != setting.default
            }
            assert set(re.findall(r"`(\w+)`", others)) == listed
