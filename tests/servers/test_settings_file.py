"""The TOML file of ``mayfly serve``: every key is read, every mistake is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mayfly.engine import Configuration
from mayfly.servers.addresses import ListenAddress, listen_address
from mayfly.servers.logs import LogForm
from mayfly.servers.settings import (
    DEFAULT_LISTEN,
    ClientLimits,
    Listen,
    ServedFolder,
    ServeSettings,
    TlsFiles,
    read_settings,
)
from mayfly.verbs.contracts.config_files import ConfigurationError

SMALLEST = '[[queue_manager]]\nname = "QM1"\n'
WHOLE = """\
log = "json"
drain_seconds = 30
token_file = "secret/token"

[listen]
mq = "127.0.0.1:1415"
flight = "[::1]:9414"

[limits]
connections = 100
outstanding_bytes = 65536
admission_seconds = 5
heartbeat_seconds = 60
idle_seconds = 3600

[tls]
certificate = "chain.pem"
key = "key.pem"
client_roots = "roots.pem"

[fleet]
north = "https://qm1.example.com:9443"

[[queue_manager]]
name = "QM1"
path = "/var/lib/mayfly/QM1"
platform = "zos"
command_level = 930
settings = { "expiry.max_check" = "always" }
mqsc = ["qm1.mqsc"]
expiry_interval_seconds = 0
lake = "lake"

[[queue_manager]]
name = "QM2"
"""


def read(folder: Path, text: str) -> ServeSettings:
    for name in ("chain.pem", "key.pem", "roots.pem"):
        (folder / name).touch()
    (folder / "config.toml").write_text(text)
    return read_settings(folder / "config.toml")


def test_the_smallest_file_has_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, SMALLEST) == ServeSettings((ServedFolder("QM1"),), listen=DEFAULT_LISTEN)
    assert all(address is None or address.is_loopback for address in DEFAULT_LISTEN)


def test_a_server_with_a_replica_has_heartbeats_each_two_seconds_unless_it_names_them(
    tmp_path: Path,
) -> None:
    replica = f'{SMALLEST}\nreplica = "postgresql://db/queues"\n'
    assert read(tmp_path, SMALLEST).client_limits.heartbeat_seconds == 0
    assert read(tmp_path, replica).client_limits.heartbeat_seconds == 2
    named = f"[limits]\nheartbeat_seconds = 60\n{replica}"
    assert read(tmp_path, named).client_limits.heartbeat_seconds == 60


def test_every_key_is_read(tmp_path: Path) -> None:
    first = ServedFolder(
        "QM1",
        Path("/var/lib/mayfly/QM1"),
        Configuration("zos", 930, {"expiry.max_check": "always"}),
        (tmp_path / "qm1.mqsc",),
        0,
        tmp_path / "lake",
    )
    assert read(tmp_path, WHOLE) == ServeSettings(
        (first, ServedFolder("QM2")),
        listen=Listen(ListenAddress("127.0.0.1", 1415), ListenAddress("::1", 9414)),
        limits=ClientLimits(100, 65_536, 5, 60, 3_600),
        tls=TlsFiles(tmp_path / "chain.pem", tmp_path / "key.pem", tmp_path / "roots.pem"),
        log=LogForm.JSON,
        drain_seconds=30,
        token_file=tmp_path / "secret" / "token",
        fleet={"north": "https://qm1.example.com:9443"},
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ": [[queue_manager]]: is missing"),
        ("nothing", ": is not TOML: "),
        (f'log = "xml"\n{SMALLEST}', ", line 1: log: 'xml' is none of plain, text, json"),
        (f"drain_seconds = -1\n{SMALLEST}", ", line 1: drain_seconds: -1 is not a whole number"),
        (f'{SMALLEST}[listen]\nflight = "9414"\n', ", line 4: [listen], flight: '9414' is not HO"),
        (f'{SMALLEST}lake = "s3a://b/x"\n', ", line 3: [[queue_manager]] 1, lake: s3a://b/x is no"),
        (f'{SMALLEST}path = "s3a://b/x"\n', ", line 3: [[queue_manager]] 1, path: s3a://b/x is no"),
        (f'{SMALLEST}[listen]\nflihgt = ""\n', ", line 4: [listen], flihgt: is no key here, did"),
        (f"{SMALLEST}[limits]\nconnections = 0\n", ", line 4: [limits], connections: 0 is not a"),
        (f'{SMALLEST}[fleet]\nx = "a:1"\n', ", line 4: [fleet], x: 'a:1' is not as https://"),
        (f'{SMALLEST}[fleet]\nx = "http://a/b"\n', ", line 4: [fleet], x: 'http://a/b' is not as"),
        (f"{SMALLEST}{SMALLEST}", ": queue manager QM1 is named twice"),
        (f"{SMALLEST}replica_lease_ms = 9\n", ", line 3: [[queue_manager]] 1, replica_lease_ms: 9"),
        (f'{SMALLEST}platform = "vms"\n', ", line 3: [[queue_manager]] 1, platform: 'vms' is none"),
        (f'{SMALLEST}settings = {{ foo = "1" }}\n', ", line 3: [[queue_manager]] 1, settings: "),
        (f'{SMALLEST}mqsc = "a.mqsc"\n', ", line 3: [[queue_manager]] 1, mqsc: 'a.mqsc' is not a"),
        (f'{SMALLEST}[tls]\nkey = "no.pem"\n', ", line 4: [tls], key: there is no file "),
        (f'{SMALLEST}[tls]\nkey = "key.pem"\n', ": certificate and key go together"),
        (f'{SMALLEST}[listen]\nflight = "0.0.0.0:1"\n', ": host '0.0.0.0' is open to other mach"),
        (f'token = "x"\n{SMALLEST}', ", line 1: token: a token does not stand in a file"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'config.toml'}{said}")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:1414", ListenAddress("127.0.0.1", 1414)),
        ("localhost:0", ListenAddress("localhost", 0)),
        ("[::1]:65535", ListenAddress("::1", 65535)),
    ],
)
def test_an_address_to_listen_on_is_written_as_it_is_read(
    text: str, address: ListenAddress
) -> None:
    assert listen_address(text) == address
    assert str(address) == text
    assert address.is_loopback


@pytest.mark.parametrize("text", ["", "1414", ":1414", "h:", "h:65536", "h:-1", "::1:1414", "h:²"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        listen_address(text)
