"""Which way a name leads: the program's channel, MQSERVER, MQCCDTURL, MQCHLLIB and MQCHLTAB."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mayfly.client.connection.endpoint import (
    Address,
    Endpoint,
    Reconnect,
    Tls,
    addresses_of,
    endpoint_of_url,
    is_url,
)
from mayfly.client.connection.routes import (
    DEFAULT_OPTIONS,
    ConnectOptions,
    endpoint_of_mqserver,
    routes,
)
from mayfly.mqi.errors import MQError


def table(path: Path, *channels: tuple[str, str, str], cipher: str = "") -> Path:
    """Write a table of (channel, host, queueManager)."""
    rows = [
        {
            "name": name,
            "type": "clientConnection",
            "clientConnection": {"connection": [{"host": host}], "queueManager": group},
            "transmissionSecurity": {"cipherSpecification": cipher},
            "connectionManagement": {"defaultReconnect": "yes"},
        }
        for name, host, group in channels
    ]
    path.write_text(json.dumps({"channel": rows}))
    return path


def chosen(name: str, wanted: ConnectOptions = DEFAULT_OPTIONS, /, **environment: str) -> list[str]:
    """Return channels and addresses in the order of trial."""
    found = routes(name, wanted, environment=environment)
    assert found is not None
    return [f"{route.endpoint} {route.endpoint.queue_manager}".strip() for route in found]


def refused(name: str = "QM1", **environment: str) -> MQError:
    with pytest.raises(MQError) as raised:
        chosen(name, DEFAULT_OPTIONS, **environment)
    return raised.value


def test_the_order_is_that_of_ibm_mq(tmp_path: Path) -> None:
    url = table(tmp_path / "url.json", ("BY.URL", "u", "QM1"))
    lib = table(tmp_path / "lib.json", ("BY.LIB", "l", "QM1"))
    environment = {
        "MQSERVER": "BY.SERVER/TCP/s(1)",
        "MQCCDTURL": url.as_uri(),
        "MQCHLLIB": str(tmp_path),
        "MQCHLTAB": lib.name,
    }
    given = ConnectOptions(Endpoint(addresses_of("p(2)"), "BY.PROGRAM"))
    assert chosen("QM1", given, **environment) == ["BY.PROGRAM/TCP/p(2) QM1"]
    assert chosen("QM1", DEFAULT_OPTIONS, **environment) == ["BY.SERVER/TCP/s(1) QM1"]
    del environment["MQSERVER"]
    assert chosen("QM1", DEFAULT_OPTIONS, **environment) == ["BY.URL/TCP/u(1414) QM1"]
    del environment["MQCCDTURL"]
    assert chosen("QM1", DEFAULT_OPTIONS, **environment) == ["BY.LIB/TCP/l(1414) QM1"]
    assert routes("QM1", environment={}) is None


def test_an_asterisk_takes_whichever_queue_manager_answers() -> None:
    assert chosen("*", MQSERVER="C/TCP/h") == ["C/TCP/h(1414)"]
    given = ConnectOptions(Endpoint(addresses_of("p"), "C"))
    assert chosen("*ANY", given) == ["C/TCP/p(1414)"]


@pytest.mark.parametrize(
    ("value", "addresses"),
    [
        ("C/TCP/h", [("h", 1414)]),
        ("C/TCP/h(1500),[::1](1501)", [("h", 1500), ("::1", 1501)]),
        (" C / TCP / h ", [("h", 1414)]),
    ],
)
def test_mqserver(value: str, addresses: list[tuple[str, int]]) -> None:
    assert endpoint_of_mqserver(value) == Endpoint(tuple(Address(*a) for a in addresses), "C")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("C", 2278),
        ("C/TCP", 2278),
        ("/TCP/h", 2278),
        (f"{'C' * 21}/TCP/h", 2278),
        ("C/LU62/BOX99", 2058),
        ("C/tcp/h", 2058),
        ("C/TCP/", 2538),
        ("C/TCP/h(x)", 2538),
    ],
)
def test_wrong_mqserver(value: str, reason: int) -> None:
    error = refused(MQSERVER=value)
    assert error.reason == reason
    assert repr(value) in error.detail or "connection name" in error.detail


def test_mqccdturl_is_a_file(tmp_path: Path) -> None:
    path = table(tmp_path / "a b.json", ("C", "h", "QM1"))
    for url in (path.as_uri(), f"file://localhost{path.as_uri()[7:]}", str(path)):
        assert chosen("QM1", MQCCDTURL=url) == ["C/TCP/h(1414) QM1"]
    for url in ("ftp://host/x", "file://host/x", "file:", "none.json", "https://localhost:1/x"):
        error = refused(MQCCDTURL=url)
        assert error.reason == 2600
        assert url in error.detail
    error = refused(MQCCDTURL="https://me:secret@[::1/x.json")
    assert (error.reason, "secret" in error.detail) == (2600, False)
    assert "MQCCDTURL" in error.detail


def test_mqchllib_alone_means_the_binary_table(tmp_path: Path) -> None:
    error = refused(MQCHLLIB=str(tmp_path))
    assert error.reason == 2058
    assert str(tmp_path / "AMQCLCHL.TAB") in error.detail
    (tmp_path / "AMQCLCHL.TAB").write_bytes(b"AMQR\0\0\0\1")
    error = refused(MQCHLLIB=str(tmp_path))
    assert (error.reason, "binary table" in error.detail) == (2278, True)
    path = table(tmp_path / "t.json", ("C", "h", "QM1"))
    assert chosen("QM1", MQCHLTAB=str(path)) == ["C/TCP/h(1414) QM1"]


def test_rows_of_a_group_are_tried_in_order_and_say_how_to_reconnect(tmp_path: Path) -> None:
    path = table(tmp_path / "t.json", ("B", "b", "G"), ("A", "a", "G"), ("C", "c", "QM1"))
    assert chosen("*G", MQCCDTURL=str(path)) == ["A/TCP/a(1414)", "B/TCP/b(1414)"]
    found = routes("*G", environment={"MQCCDTURL": str(path)})
    assert found is not None
    assert {route.reconnect for route in found} == {Reconnect.YES}
    error = refused("G2", MQCCDTURL=str(path))
    assert (error.reason, "the table has G, QM1" in error.detail) == (2058, True)


def test_a_table_that_was_changed_is_read_again(tmp_path: Path) -> None:
    path = table(tmp_path / "t.json", ("C", "h", "QM1"))
    assert chosen("QM1", MQCCDTURL=str(path)) == ["C/TCP/h(1414) QM1"]
    table(path, ("C", "other-host", "QM1"))
    os.utime(path, ns=(1, 1))
    assert chosen("QM1", MQCCDTURL=str(path)) == ["C/TCP/other-host(1414) QM1"]


CERTIFICATE = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"


def tls_of(path: Path, wanted: ConnectOptions = DEFAULT_OPTIONS, /, **more: str) -> Tls:
    found = routes("QM1", wanted, environment={"MQCCDTURL": str(path), **more})
    assert found is not None
    [route] = found
    assert route.endpoint.tls is not None
    return route.endpoint.tls


def test_a_key_repository_is_a_pem_file(tmp_path: Path) -> None:
    path = table(tmp_path / "t.json", ("C", "h", "QM1"), cipher="ANY_TLS12")
    assert tls_of(path) == Tls("ANY_TLS12")
    keys = tmp_path / "key.pem"
    keys.write_text(CERTIFICATE)
    for name in ("key", "key.pem"):
        repository = str(tmp_path / name)
        assert tls_of(path, MQSSLKEYR=repository) == Tls("ANY_TLS12", keys)
        assert (
            tls_of(path, ConnectOptions(key_repository=repository), MQSSLKEYR="x").authorities
            == keys
        )
    keys.write_text(CERTIFICATE + KEY)
    assert tls_of(path, MQSSLKEYR=str(keys)) == Tls("ANY_TLS12", keys, keys)
    own = tmp_path / "app.pem"
    own.write_text(CERTIFICATE + KEY)
    labelled = ConnectOptions(certificate_label="app")
    assert tls_of(path, labelled, MQSSLKEYR=str(keys)) == Tls("ANY_TLS12", keys, own)


@pytest.mark.parametrize(
    ("repository", "label", "said"),
    [
        ("key.kdb", "", "keys are PEM files here"),
        ("key.p12", "", "openssl pkcs12"),
        ("none", "", "none.pem is not there"),
        ("key", "app", "app.pem is not there"),
        ("", "app", "'app' without a key repository"),
    ],
)
def test_a_wrong_key_repository_is_2381(
    tmp_path: Path, repository: str, label: str, said: str
) -> None:
    path = table(tmp_path / "t.json", ("C", "h", "QM1"), cipher="ANY")
    (tmp_path / "key.pem").write_text(CERTIFICATE)
    wanted = ConnectOptions(
        key_repository=repository and str(tmp_path / repository), certificate_label=label
    )
    with pytest.raises(MQError) as raised:
        tls_of(path, wanted)
    assert raised.value.reason == 2381
    assert said in raised.value.detail


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("mq://h/QM1", Endpoint((Address("h"),), "SYSTEM.DEF.SVRCONN", "QM1")),
        (
            "mq://a:1500,[::1]:1501/QM1?channel=APP",
            Endpoint((Address("a", 1500), Address("::1", 1501)), "APP", "QM1"),
        ),
        ("mq://h:1414?channel=A%2FB", Endpoint((Address("h"),), "A/B")),
        ("mqs://h/Q%41", Endpoint((Address("h"),), "SYSTEM.DEF.SVRCONN", "QA", Tls())),
        (
            "mqs://h/Q?cipher=ANY_TLS13&ca=/ca.pem&certificate=/me.pem&peer=CN%3Dq",
            Endpoint(
                (Address("h"),),
                "SYSTEM.DEF.SVRCONN",
                "Q",
                Tls("ANY_TLS13", Path("/ca.pem"), Path("/me.pem"), "CN=q"),
            ),
        ),
    ],
)
def test_urls(url: str, endpoint: Endpoint) -> None:
    assert is_url(url)
    assert endpoint_of_url(url) == endpoint


def test_tls_given_beside_a_url() -> None:
    assert endpoint_of_url("mq://h/Q", Tls("ANY_TLS13")).tls == Tls("ANY_TLS13")
    assert endpoint_of_url("mq://h/Q?ca=c", Tls("ANY")).tls == Tls("ANY", Path("c"))


def test_a_url_keeps_the_key_of_a_certificate_that_it_does_not_replace() -> None:
    own = Tls(certificate=Path("me.pem"), key=Path("me.key"))
    given = endpoint_of_url("mqs://h/Q?ca=ca.pem&cipher=ANY_TLS13&peer=CN%3Dq", own).tls
    assert given == Tls("ANY_TLS13", Path("ca.pem"), Path("me.pem"), "CN=q", Path("me.key"))
    replaced = endpoint_of_url("mqs://h/Q?certificate=other.pem", own).tls
    assert replaced == Tls(certificate=Path("other.pem"))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("amqp://h/Q", "amqp:// is neither mq:// nor mqs://"),
        ("mq:///Q", "'' is no host:port"),
        ("mq://h:x/Q", "'h:x' is no host:port"),
        ("mq://h:0/Q", "'h:0' is no host:port"),
        ("mq://h,/Q", "'' is no host:port"),
        ("mq://[::1/Q", "'[::1' is no host:port"),
        ("mq://h]/Q", "'h]' is no host:port"),
        ("mq://[zz]/Q", "'[zz]' is no host:port"),
        ("mq://a,[::1]:x?channel=C", "'[::1]:x' is no host:port"),
        ("mq://h/Q?colour=red", "'colour' is none of channel, cipher"),
        ("mq://h/Q?ca=c.pem", "ca without TLS: write mqs://"),
        ("mq://h/Q#x", "#x means nothing here"),
    ],
)
def test_wrong_urls_are_2278(url: str, said: str) -> None:
    with pytest.raises(MQError) as raised:
        endpoint_of_url(url)
    assert raised.value.reason == 2278
    assert said in raised.value.detail


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(MQError) as raised:
        endpoint_of_url("mq://app:secret@h/Q")
    assert raised.value.reason == 2278
    assert "secret" not in str(raised.value)
