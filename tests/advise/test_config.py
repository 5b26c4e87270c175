"""Settings from a file: properties and TOML, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly.pipeline.advise.settings import AdviseError, read_config


def test_properties_of_a_listener_port(tmp_path: Path) -> None:
    """Comments, all three ways to write a pair, and properties that change nothing."""
    file = tmp_path / "port.properties"
    file.write_text(
        "# a port\n! too\n\nNON.ASF.RECEIVE.TIMEOUT=110000\ntotalTranLifetimeTimeout: 120\n"
        "maxSessions 3\nMAX.RECOVERY.RETRIES = 5\nlongest_on_message_ms = 15000\n"
    )
    assert read_config(file) == {
        "receive_timeout_ms": 110_000,
        "total_tran_lifetime_timeout_s": 120,
        "max_sessions": 3,
        "longest_on_message_ms": 15_000,
    }


def test_toml_with_dots_in_its_keys(tmp_path: Path) -> None:
    """To TOML a dotted key is tables in tables, quoted it is one; both are the property."""
    file = tmp_path / "port.toml"
    for key in ("NON.ASF.RECEIVE.TIMEOUT", '"NON.ASF.RECEIVE.TIMEOUT"'):
        file.write_text(f"{key} = 110000\ntotal_tran_lifetime_timeout_s = 60\nBOTHRESH = 2\n")
        assert read_config(file) == {
            "receive_timeout_ms": 110_000,
            "total_tran_lifetime_timeout_s": 60,
            "bothresh": 2,
        }


def test_properties_for_a_port_by_its_name_in_any_case(tmp_path: Path) -> None:
    """They change nothing of the advice; a wrong value of theirs is named all the same."""
    file = tmp_path / "port.properties"
    prefix = "SERVER.SESSION.POOL.UNUSED.TIMEOUT"
    for name in ("myPort", "MYPORT", "my.port"):
        file.write_text(f"NON.ASF.RECEIVE.TIMEOUT=110000\n{prefix}.{name}=30\n")
        assert read_config(file) == {"receive_timeout_ms": 110_000}
    toml = tmp_path / "port.toml"
    toml.write_text(f"non.asf.receive.timeout = 5\n{prefix}.myPort = 30\n")
    assert read_config(toml) == {"receive_timeout_ms": 5}
    file.write_text(f"{prefix}.myPort=soon\n")
    with pytest.raises(AdviseError, match="myPort 'soon' is not a whole number"):
        read_config(file)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.properties", "NON.ASF.RECIEVE.TIMEOUT=1", "'NON.ASF.RECIEVE.TIMEOUT' is not known"),
        ("a.properties", "max_session=1", "'max_session' is unknown; known are NON.ASF.RECEIVE"),
        ("a.properties", "max_sessions=two", "max_sessions is 'two', not a whole number"),
        ("a.properties", "NON.ASF.RECEIVE.TIMEOUT=2s", "TIMEOUT is '2s', not a whole number"),
        ("a.properties", "maxSessions=1\nmax_sessions=1", "max_sessions is given twice"),
        ("a.properties", "BOTHRESH=1\nBOTHRESH=1", "BOTHRESH is given twice"),
        ("a.properties", "alone", "line 1 is 'alone', not KEY=VALUE"),
        ("a.toml", "max_sessions = true", "max_sessions is True, not a whole number"),
        ("a.toml", "max_sessions =", "a.toml cannot be read"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, name: str, text: str, said: str) -> None:
    """With the file, the key and the value."""
    (tmp_path / name).write_text(text)
    with pytest.raises(AdviseError, match=said) as raised:
        read_config(tmp_path / name)
    assert name in str(raised.value)
