"""IBM's channel table in JSON: what is read, what is refused with its place, what is chosen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mayfly.client.connection.ccdt import ChannelTable, ClientChannel, read_table
from mayfly.client.connection.endpoint import Address, Endpoint, Reconnect, Tls
from mayfly.mqi.errors import MQError

Write = Callable[[object], Path]

#: Every key that IBM's documentation lists.
FULL = {
    "general": {"description": "payments", "maximumMessageLength": 1_048_576},
    "name": "PAY.SVRCONN",
    "type": "clientConnection",
    "clientConnection": {
        "connection": [{"host": "mq-a", "port": 1415}, {"host": "2001:db8::1"}],
        "queueManager": "BANK1",
    },
    "transmissionSecurity": {
        "cipherSpecification": "ANY_TLS12_OR_HIGHER",
        "certificateLabel": "payclient",
        "certificatePeerName": "CN=bank1",
    },
    "connectionManagement": {
        "affinity": "none",
        "clientWeight": 7,
        "defaultReconnect": "queueManager",
        "disconnectInterval": 0,
        "heartbeatInterval": 30,
        "keepAliveInterval": -1,
        "localAddress": [],
        "sharingConversations": 5,
    },
    "compression": {"header": ["none"], "message": ["none"]},
    "exits": {"receive": [{"name": "", "userData": ""}], "send": [], "security": {"name": ""}},
    "timestamps": {"altered": "2026-01-01T00:00:00.000Z"},
}
LEAST: dict[str, Any] = {
    "name": "C",
    "type": "clientConnection",
    "clientConnection": {"connection": [{"host": "h"}]},
}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a value as a JSON table, bytes as they are."""

    def call(value: object) -> Path:
        path = tmp_path / "ccdt.json"
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        return path

    return call


def test_all_keys_of_a_channel(write: Write) -> None:
    [row] = read_table(write({"channel": [FULL]})).channels
    assert row == ClientChannel(
        Endpoint(
            (Address("mq-a", 1415), Address("2001:db8::1", 1414)),
            "PAY.SVRCONN",
            "",
            Tls("ANY_TLS12_OR_HIGHER", peer_name="CN=bank1"),
            30,
            5,
            1_048_576,
        ),
        "BANK1",
        7,
        is_preferred=False,
        reconnect=Reconnect.QUEUE_MANAGER,
        label="payclient",
    )


def test_defaults_of_a_channel(write: Write) -> None:
    [row] = read_table(write({"channel": [LEAST]})).channels
    endpoint = Endpoint((Address("h", 1414),), "C", "", None, 300, 10, 4_194_304)
    assert row == ClientChannel(endpoint, "", 0, True, Reconnect.NO, "")


def changed(path: str, value: object) -> dict[str, object]:
    """Return a table of one full channel with one value changed, None: without the key."""
    table: dict[str, Any] = {"channel": [json.loads(json.dumps(FULL))]}
    *inner, last = path.replace("[", ".").replace("]", "").split(".")
    at: Any = table
    for part in inner:
        at = at[int(part)] if part.isdigit() else at[part]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return table


WRONG: list[tuple[str, object, str]] = [
    ("channel", None, "channel: is missing"),
    ("channel", {}, "channel: {} is no list: write […]"),
    ("channel[0].name", None, "channel[0].name: is missing"),
    ("channel[0].name", "X" * 21, f"channel[0].name: '{'X' * 21}' is no channel name"),
    ("channel[0].type", "serverConnection", "channel[0].type: 'serverConnection' is none of"),
    ("channel[0].clientConnection", None, "channel[0].clientConnection.connection: is missing"),
    ("channel[0].clientConnection.connection", [], "connection: has no host"),
    ("channel[0].clientConnection.connection[1].host", "", "connection[1].host: '' is no host"),
    ("channel[0].clientConnection.connection[0].port", "1414", "port: '1414' is no whole number"),
    ("channel[0].clientConnection.connection[0].port", 0, "port: 0 is no whole number from 1 to"),
    ("channel[0].clientConnection.connection[0].port", True, "port: True is no whole number"),
    ("channel[0].clientConnection.queueManager", 7, "queueManager: 7 is no text"),
    ("channel[0].connectionManagement.clientWeight", 100, "100 is no whole number from 0 to 99"),
    ("channel[0].connectionManagement.affinity", "some", "'some' is none of preferred, none"),
    ("channel[0].connectionManagement.defaultReconnect", "maybe", "none of no, yes, queueManager"),
    ("channel[0].connectionManagement", [], "connectionManagement: [] is no object"),
    ("channel[0].exits.security", {"name": "bouncer"}, "exits.security: exits are programs"),
]


@pytest.mark.parametrize(("path", "value", "said"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_value_is_2278_with_its_place(
    write: Write, path: str, value: object, said: str
) -> None:
    file = write(changed(path, value))
    with pytest.raises(MQError) as raised:
        read_table(file)
    assert raised.value.reason == 2278
    assert raised.value.detail.startswith(f"{file}: ")
    assert said in raised.value.detail


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("channels", "channels: is no key here, and is not used, did you mean 'channel'?"),
        ("channel[0].colour", "channel[0].colour: is no key here, and is not used"),
        ("channel[0].transmissionSecurity.cipherSpec", "did you mean 'cipherSpecification'?"),
    ],
)
def test_a_key_that_is_not_used_is_a_warning_with_its_place(
    write: Write, caplog: pytest.LogCaptureFixture, path: str, said: str
) -> None:
    file = write(changed(path, "X"))
    [channel] = read_table(file).channels
    assert channel.endpoint.channel == FULL["name"]
    [warning] = caplog.messages
    assert warning.startswith(f"{file}: ")
    assert said in warning


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"AMQR\0\0\0\x01\xff\xfe", "is a binary table (AMQCLCHL.TAB), which only IBM's client"),
        (b"AMQR\0\0\0\0", "is a binary table"),
        (b"{", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[]", "[] is no object"),
        (b'{"channel": [], "channel": []}', "the key 'channel' stands twice in one object"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_json_table_is_2278(write: Write, content: bytes, said: str) -> None:
    with pytest.raises(MQError) as raised:
        read_table(write(content))
    assert raised.value.reason == 2278
    assert said in raised.value.detail


def test_a_byte_order_mark_is_no_error(write: Write) -> None:
    assert read_table(write(b"\xef\xbb\xbf" + json.dumps({"channel": []}).encode())).channels == ()


def row(name: str, group: str, weight: int = 0, *, preferred: bool = True) -> ClientChannel:
    return ClientChannel(
        Endpoint((Address(name.lower()),), name), group, weight, preferred, Reconnect.NO, ""
    )


def order(table: ChannelTable, name: str, random: Random) -> list[str]:
    """Return the channels that are tried when each of them fails."""
    return [each.endpoint.channel for each in table.candidates(name, random.randbytes)]


def first(table: ChannelTable, name: str, random: Random) -> str:
    """Return the channel of a connection whose first trial succeeds."""
    return next(table.candidates(name, random.randbytes)).endpoint.channel


def test_a_name_finds_the_rows_of_its_queue_manager() -> None:
    table = ChannelTable([row("B", "QM1"), row("A", "QM1"), row("X", "QM2"), row("N", "")])
    random = Random(1)
    assert order(table, "QM1", random) == ["A", "B"]
    assert order(table, "*QM1", random) == ["A", "B"]
    assert order(table, "", random) == ["N"]
    assert order(table, "*", random) == ["N"]
    with pytest.raises(MQError, match=r"the table has \(blank\), QM1, QM2") as raised:
        order(table, "QM3", random)
    assert raised.value.reason == 2058


@pytest.mark.parametrize(("name", "asked"), [("QM1", "QM1"), ("*QM1", ""), ("", ""), ("*", "")])
def test_only_a_plain_name_asks_for_that_queue_manager(name: str, asked: str) -> None:
    table = ChannelTable([row("A", "QM1"), row("N", "")])
    [chosen] = table.candidates(name, Random(1).randbytes)
    assert chosen.endpoint.queue_manager == asked


def test_rows_of_one_name_keep_the_order_of_the_file() -> None:
    one, other = row("C", "G"), row("C", "G")
    other = other._replace(endpoint=other.endpoint._replace(addresses=(Address("second"),)))
    hosts = [
        each.endpoint.addresses[0]
        for each in ChannelTable([one, other]).candidates("*G", Random(1).randbytes)
    ]
    assert hosts == [Address("c"), Address("second")]


def test_weight_0_comes_first_by_name_and_the_others_by_chance() -> None:
    rows = [row("W1", "G", 2), row("Z", "G"), row("W2", "G", 4), row("B", "G"), row("W3", "G", 14)]
    table = ChannelTable([each._replace(is_preferred=False) for each in rows])
    random = Random(20)
    orders = [order(table, "*G", random) for _ in range(2000)]
    assert all(each[:2] == ["B", "Z"] for each in orders)
    counts = Counter(each[2] for each in orders)
    # 10 %, 20 % and 70 %, as IBM's documentation has it.
    assert [round(counts[name] / 200) for name in ("W1", "W2", "W3")] == [1, 2, 7]


def test_affinity_none_draws_for_each_connection_and_preferred_once() -> None:
    rows = [row(name, "G", 1) for name in "ABCD"]
    random = Random(3)
    free = ChannelTable([each._replace(is_preferred=False) for each in rows])
    assert {first(free, "*G", random) for _ in range(100)} == set("ABCD")
    for _ in range(20):
        kept = ChannelTable(rows)
        assert len({first(kept, "*G", random) for _ in range(20)}) == 1


def test_preferred_leaves_a_row_that_has_failed_and_stays_with_the_next() -> None:
    table, random = ChannelTable([row("A", "G", 1), row("B", "G", 1), row("Z", "G")]), Random(3)
    zero, one, other = order(table, "*G", random)
    assert zero == "Z"
    candidates = table.candidates("*G", random.randbytes)
    assert [next(candidates).endpoint.channel for _ in range(2)] == ["Z", one]
    candidates = table.candidates("*G", random.randbytes)
    assert [next(candidates).endpoint.channel for _ in range(3)] == ["Z", one, other]
    # ``one`` has failed: it is behind ``other`` now. A row of weight 0 keeps its place.
    candidates = table.candidates("*G", random.randbytes)
    assert [next(candidates).endpoint.channel for _ in range(2)] == ["Z", other]
