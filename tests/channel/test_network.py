"""Channels over real sockets: TRPTYPE(TCP) leads to where the other queue manager is served."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from mayfly import QueueManager
from mayfly.bulk.channels import PARCEL, ChannelClient
from mayfly.bulk.errors import BadRequest
from mayfly.channel import Link, LinkDown, Opening, Status
from mayfly.channel.addresses import Address, addresses_of
from mayfly.channel.network import NetworkLink
from mayfly.contracts import channels as wire
from mayfly.contracts.channels import PackedParcel
from mayfly.contracts.requests import PROTOCOL
from mayfly.engine import find_channel
from mayfly.engine.face.transit import ChannelDefinition
from mayfly.lifetime.transmission import silence_ms
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor, pack_descriptor
from mayfly.servers.flight import FlightServer
from mayfly.testing import VirtualClock
from tests.channel.network_scene import TOKEN, lead_to, served
from tests.channel.scene import (
    CHANNEL,
    START_MS,
    XMITQ,
    FragileLink,
    bodies,
    done,
    messages,
    put,
    receiving,
    sending,
    standing,
)
from tests.channel.test_moving import Line
from tests.ports import held_port
from tests.servers.certificates import certificate

HEARTBEAT_S = 300
SILENCE_MS = 360_000


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAYFLY_TOKEN", TOKEN)


@pytest.fixture
def there_clock() -> VirtualClock:
    """The time of QM2, which is another machine's."""
    return VirtualClock(START_MS)


@pytest.fixture
def two(there_clock: VirtualClock) -> Iterator[QueueManager]:
    with receiving(there_clock) as manager:
        yield manager
        if not manager.is_stopped:
            found = manager.verify()
            assert found.ok, found.problems


@pytest.fixture
def server(two: QueueManager) -> Iterator[FlightServer]:
    with served(two) as server:
        yield server


@pytest.fixture
def one(clock: VirtualClock, server: FlightServer) -> Iterator[QueueManager]:
    with sending(clock) as manager:
        lead_to(manager, server.port)
        yield manager
        found = manager.verify()
        assert found.ok, found.problems


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which nobody listens but who is told to."""
    with held_port() as port:
        yield port


@pytest.fixture
def client(server: FlightServer) -> Iterator[ChannelClient]:
    client = ChannelClient(server.url, token=TOKEN)
    yield client
    client.close()


# The messages


def test_a_message_arrives_as_it_was_put(one: QueueManager, two: QueueManager) -> None:
    one.channels.start(CHANNEL)
    msg_id = put(
        one,
        b"\0\xff",
        correl_id=b"c" * 24,
        priority=7,
        reply_to_q="BACK",
        report=c.MQRO_EXPIRATION,
        time_to_live_ms=20_000,
    )
    [message] = messages(two)
    assert (message.msg_id, message.correl_id, message.body) == (msg_id, b"c" * 24, b"\0\xff")
    assert (message.priority, message.persistent, message.remaining_tenths) == (7, True, 200)
    descriptor = message.descriptor
    assert descriptor.report == c.MQRO_EXPIRATION
    assert (descriptor.reply_to_q.strip(), descriptor.reply_to_q_mgr.strip()) == ("BACK", "QM1")
    assert descriptor.user_identifier.strip() == "alice"
    assert one.curdepth(XMITQ) == 0


def test_E6_time_on_the_transmission_queue_counts_and_the_clocks_may_differ(
    one: QueueManager, two: QueueManager, clock: VirtualClock, there_clock: VirtualClock
) -> None:
    """What travels is what is left, so that nobody compares two machines' clocks."""
    there_clock.advance(3_600_000)
    put(one, b"old", time_to_live_ms=20_000)
    clock.advance(7_000)
    one.channels.start(CHANNEL)
    assert [m.remaining_tenths for m in messages(two)] == [130]
    there_clock.advance(12_999)
    assert bodies(two) == [b"old"]
    there_clock.advance(1)
    assert bodies(two) == []


def test_a_batch_larger_than_what_a_socket_takes_at_once_arrives_whole(
    one: QueueManager, two: QueueManager
) -> None:
    data = [bytes([n]) * 1_500_000 for n in range(5)]
    for one_of_them in data:
        put(one, one_of_them)
    put(one, b"fast", persistent=False)
    put(one, b"")
    one.channels.start(CHANNEL)
    assert sorted(bodies(two)) == sorted([*data, b"fast", b""])
    assert standing(one).sequence == 6


def test_what_has_no_room_waits_for_it(
    one: QueueManager, two: QueueManager, clock: VirtualClock, there_clock: VirtualClock
) -> None:
    """MRTMR runs at the sender, whose receiver counts its life on."""
    done(two, "ALTER QLOCAL(IN) MAXDEPTH(1)")
    for body in (b"1", b"2"):
        put(one, body, time_to_live_ms=60_000)
    one.channels.start(CHANNEL)
    assert standing(one).status is Status.PAUSED
    assert bodies(two) == []
    done(two, "ALTER QLOCAL(IN) MAXDEPTH(2)")
    there_clock.advance(1_000)
    clock.advance(1_000)
    assert standing(one).status is Status.RUNNING
    assert [(m.body, m.remaining_tenths) for m in messages(two)] == [(b"1", 590), (b"2", 590)]


def test_Q1_what_nobody_takes_is_a_dead_letter_there(one: QueueManager, two: QueueManager) -> None:
    one.channels.start(CHANNEL)
    put(one, b"lost", queue="NOWHERE@QM2")
    assert two.curdepth("SYSTEM.DEAD.LETTER.QUEUE") == 1
    assert standing(one).status is Status.RUNNING


# The way


def test_the_first_address_that_answers_is_taken(
    one: QueueManager, two: QueueManager, server: FlightServer, port: int
) -> None:
    lead_to(one, port, server.port)
    one.channels.start(CHANNEL)
    put(one, b"x")
    assert bodies(two) == [b"x"]


def test_where_nobody_listens_the_channel_retries_until_somebody_does(
    one: QueueManager, two: QueueManager, clock: VirtualClock, port: int
) -> None:
    lead_to(one, port)
    put(one, b"x")
    one.channels.start(CHANNEL)
    assert standing(one).status is Status.RETRYING
    assert f"no Mayfly server answers at grpc://127.0.0.1:{port}" in standing(one).failure
    with served(two, port):
        clock.advance(59_999)
        assert standing(one).status is Status.RETRYING
        clock.advance(1)
        assert (standing(one).status, bodies(two)) == (Status.RUNNING, [b"x"])


def test_a_server_that_is_gone_ends_the_link_and_nothing_is_lost(
    clock: VirtualClock, two: QueueManager
) -> None:
    with sending(clock) as one:
        with served(two) as first:
            lead_to(one, first.port)
            one.channels.start(CHANNEL)
            put(one, b"1")
        put(one, b"2")
        assert (standing(one).status, one.curdepth(XMITQ)) == (Status.RETRYING, 1)
        with served(two) as second:
            lead_to(one, second.port)
            one.channels.start(CHANNEL)
            assert bodies(two) == [b"1", b"2"]


@pytest.mark.parametrize("token", ["another", ""])
def test_without_the_token_nothing_travels(
    one: QueueManager, two: QueueManager, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYFLY_TOKEN", token)
    put(one, b"x")
    one.channels.start(CHANNEL)
    assert standing(one).status is Status.RETRYING
    assert f"({rc.MQRC_NOT_AUTHORIZED})" in standing(one).failure
    assert (bodies(two), one.curdepth(XMITQ)) == ([], 1)


def test_the_token_may_stand_in_a_file_which_is_read_at_each_start(
    one: QueueManager, two: QueueManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAYFLY_TOKEN")
    file = tmp_path / "token"
    done(one, f"ALTER CHANNEL({CHANNEL}) TOKENFILE('{file}')")
    put(one, b"x")
    one.channels.start(CHANNEL)
    assert f"token file {file} cannot be read" in standing(one).failure
    file.write_text(TOKEN + "\n")
    one.channels.start(CHANNEL)
    assert bodies(two) == [b"x"]


def test_SSLCIPH_speaks_TLS(
    clock: VirtualClock, two: QueueManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, key = certificate(tmp_path)
    pair = chain.read_bytes(), key.read_bytes()
    with (
        FlightServer(two, port=0, token=TOKEN, tls_certificate=pair) as server,
        sending(clock) as one,
    ):
        lead_to(one, server.port, more="SSLCIPH(ANY_TLS12_OR_HIGHER)")
        put(one, b"secret")
        one.channels.start(CHANNEL)
        assert standing(one).status is Status.RETRYING
        monkeypatch.setenv("MAYFLY_TLS_ROOTS", str(chain))
        one.channels.start(CHANNEL)
        assert bodies(two) == [b"secret"]


@pytest.fixture
def several(two: QueueManager) -> Iterator[FlightServer]:
    """A server of QM2 and of QM3, which has a receiver of the same name and a queue IN."""
    with (
        QueueManager("QM3") as three,
        FlightServer([three, two], port=0, token=TOKEN) as server,
    ):
        done(three, f"DEFINE QLOCAL(IN)\nDEFINE CHANNEL({CHANNEL}) CHLTYPE(RCVR)")
        yield server


def test_QMNAME_says_which_of_several_queue_managers_is_meant(
    clock: VirtualClock, two: QueueManager, several: FlightServer
) -> None:
    with sending(clock) as one:
        lead_to(one, several.port, more="QMNAME(QM2)")
        assert "AMQ8020I" in done(one, f"PING CHANNEL({CHANNEL})")
        put(one, b"x" * 3_000_000)
        put(one, b"fast", persistent=False)
        one.channels.start(CHANNEL)
        assert standing(one).partner == "QM2"
        assert sorted(map(len, bodies(two))) == [4, 3_000_000]
        assert one.curdepth(XMITQ) == 0


@pytest.mark.parametrize(
    ("more", "named"), [("", "None"), ("QMNAME('')", "None"), ("QMNAME(QM9)", "'QM9'")]
)
def test_without_the_QMNAME_of_one_of_several_nothing_travels(
    clock: VirtualClock, two: QueueManager, several: FlightServer, more: str, named: str
) -> None:
    with sending(clock) as one:
        lead_to(one, several.port, more=more)
        put(one, b"x")
        one.channels.start(CHANNEL)
        assert standing(one).status is Status.RETRYING
        assert f"no queue manager {named} here; served: QM2, QM3" in standing(one).failure
        assert (bodies(two), one.curdepth(XMITQ)) == ([], 1)
        # DISPLAY CHSTATUS says it, too.
        [row] = one.mqsc(f"DISPLAY CHSTATUS({CHANNEL}) FAILURE").rows
        assert row["FAILURE"] == standing(one).failure


def test_another_QMNAME_than_the_one_that_is_served_is_refused(
    one: QueueManager, server: FlightServer
) -> None:
    lead_to(one, server.port, more="QMNAME(QM3)")
    one.channels.start(CHANNEL)
    assert "no queue manager 'QM3' here; served: QM2" in standing(one).failure
    lead_to(one, server.port, more="QMNAME(QM2)")
    one.channels.start(CHANNEL)
    assert standing(one).status is Status.RUNNING


def test_PING_reaches_it(one: QueueManager, two: QueueManager) -> None:
    assert "AMQ8020I" in done(one, f"PING CHANNEL({CHANNEL})")
    done(two, f"DELETE CHANNEL({CHANNEL})")
    result = one.mqsc(f"PING CHANNEL({CHANNEL})")
    assert f"AMQ9519E: Channel '{CHANNEL}' not found." in result.text


def test_a_refused_command_says_what_is_wrong(one: QueueManager) -> None:
    for attributes, said in (
        ("CONNAME('host(0)')", "CONNAME: port 0 is not 1 to 65535"),
        ("CONNAME('a b')", "CONNAME: 'a b' is not host or host(port)"),
        ("SSLCIPH(DES)", "SSLCIPH must be blank or ANY_TLS12_OR_HIGHER"),
    ):
        result = one.mqsc(f"ALTER CHANNEL({CHANNEL}) {attributes}")
        assert not result.ok
        assert said in result.text


def test_an_address_is_a_host_and_perhaps_a_port() -> None:
    assert addresses_of("host") == [Address("host", None)]
    assert addresses_of("a.b-c_1(1414), [::1](65535)") == [
        Address("a.b-c_1", 1414),
        Address("[::1]", 65535),
    ]
    for wrong in ("", "host()", "host(65536)", "host(1)x", ",", "[::1", "a(1),", "host(\u0661)"):
        with pytest.raises(ValueError):
            addresses_of(wrong)


def test_a_link_that_somebody_has_closed_does_nothing_more(
    one: QueueManager, two: QueueManager
) -> None:
    """STOP CHANNEL MODE(FORCE) comes from another thread, between any two calls."""
    definition = find_channel(one.engine, CHANNEL)
    link = NetworkLink(definition)
    link.negotiate(Opening(CHANNEL, "QM1", 0, 50, 1_000, False, 300, "a" * 32))
    assert standing(two).status is Status.RUNNING
    link.close()
    link.close()
    assert standing(two).status is Status.INACTIVE
    for call in (
        partial(link.go_on, 0),
        partial(link.confirm, "A", 1),
        partial(link.ping, CHANNEL),
    ):
        with pytest.raises(LinkDown, match="the link is closed"):
            call()


# A sender that falls silent


def opening(heartbeat_s: int = HEARTBEAT_S, instance_id: str = "a" * 32) -> dict[str, Any]:
    return {
        PROTOCOL: wire.VERSION,
        wire.OPENING: [CHANNEL, "QM1", 0, 50, 1_000_000, False, heartbeat_s, instance_id],
    }


def begun(client: ChannelClient, heartbeat_s: int = HEARTBEAT_S) -> str:
    """Return the link of a sender that this test plays itself."""
    answer = client.ask(wire.BEGIN, opening(heartbeat_s), timeout_s=60)
    link: str = answer[wire.ANSWER][wire.LINK]
    return link


def parcel(body: bytes = b"x", **more: Any) -> PackedParcel:
    descriptor = pack_descriptor(Descriptor(persistence=1, priority=0))
    whole = PackedParcel("IN", "QM2", descriptor, b"m" * 24, bytes(24), None, body, False)
    return whole._replace(**more)


def sent(client: ChannelClient, link: str, *parcels: PackedParcel) -> dict[str, Any]:
    return client.send(parcels, {wire.LINK: link, "is_kept": False}, timeout_s=60)


@pytest.mark.parametrize("late_ms", [-1, 0])
def test_a_sender_that_is_silent_too_long_is_given_up(
    client: ChannelClient, two: QueueManager, there_clock: VirtualClock, late_ms: int
) -> None:
    assert silence_ms(HEARTBEAT_S) == SILENCE_MS
    link = begun(client)
    there_clock.advance(100_000)
    assert sent(client, link, parcel()) == {wire.ANSWER: None}
    there_clock.advance(SILENCE_MS + late_ms)
    confirmed = client.ask(wire.CONFIRM, {wire.LINK: link, "luw": "A", "sequence": 1}, timeout_s=60)
    if late_ms < 0:
        assert (confirmed, bodies(two)) == ({wire.ANSWER: None}, [b"x"])
    else:
        assert confirmed == {wire.DOWN: "QM2 has ended this link, or never had it"}
        assert (two.curdepth("IN"), bodies(two)) == (0, [])
        assert standing(two).status is Status.INACTIVE


def test_a_ping_says_that_the_sender_lives(
    client: ChannelClient, two: QueueManager, there_clock: VirtualClock
) -> None:
    link = begun(client)
    for _ in range(3):
        there_clock.advance(SILENCE_MS - 1)
        ping = {wire.LINK: link, "channel": CHANNEL}
        assert client.ask(wire.PING, ping, timeout_s=60) == {wire.ANSWER: None}
    assert standing(two).status is Status.RUNNING


def test_HBINT_0_waits_for_ever(
    client: ChannelClient, two: QueueManager, there_clock: VirtualClock
) -> None:
    assert silence_ms(0) is None
    begun(client, heartbeat_s=0)
    there_clock.advance(10**9)
    assert standing(two).status is Status.RUNNING


def test_silence_is_twice_a_short_heartbeat_and_a_minute_longer_than_a_long_one() -> None:
    assert [silence_ms(s) for s in (1, 59, 60, 61)] == [2_000, 118_000, 120_000, 121_000]


def test_whoever_sends_now_takes_the_place_of_who_sent_before(
    client: ChannelClient, two: QueueManager
) -> None:
    first = begun(client)
    sent(client, first, parcel(b"1"))
    second = begun(client)
    late = client.ask(wire.CONFIRM, {wire.LINK: first, "luw": "A", "sequence": 1}, timeout_s=60)
    assert wire.DOWN in late
    sent(client, second, parcel(b"2"))
    client.ask(wire.CONFIRM, {wire.LINK: second, "luw": "B", "sequence": 1}, timeout_s=60)
    assert bodies(two) == [b"2"]


def test_another_of_the_name_is_refused_while_a_sender_has_its_link(
    client: ChannelClient, two: QueueManager
) -> None:
    """Before anything is committed: else they would cut each other off for ever."""
    first = begun(client)
    other = opening(instance_id="b" * 32)
    refused = client.ask(wire.BEGIN, other, timeout_s=60)
    assert refused[wire.REFUSED] == rc.MQRC_CHANNEL_CONFIG_ERROR
    assert "another queue manager named QM1 sends on QM1.TO.QM2" in refused[wire.TEXT]
    sent(client, first, parcel(b"1"))
    client.ask(wire.END, {wire.LINK: first}, timeout_s=60)
    assert wire.ANSWER in client.ask(wire.BEGIN, other, timeout_s=60)
    assert bodies(two) == []


def test_the_end_of_a_link_backs_out_what_is_not_confirmed(
    client: ChannelClient, two: QueueManager
) -> None:
    link = begun(client)
    sent(client, link, parcel())
    assert client.ask(wire.END, {wire.LINK: link}, timeout_s=60) == {wire.ANSWER: None}
    assert (two.curdepth("IN"), standing(two).status) == (0, Status.INACTIVE)


# What no sender of ours would say


@pytest.mark.parametrize(
    ("verb", "request_", "said"),
    [
        (wire.BEGIN, {**opening(), PROTOCOL: 1}, "protocol 1 is not spoken here: 3"),
        (wire.BEGIN, {**opening(), wire.OPENING: [CHANNEL]}, "is no opening"),
        (wire.BEGIN, {**opening(), wire.OPENING: [CHANNEL, "Q", 0, 0, 1, False, 1, ""]}, "no open"),
        (wire.BEGIN, {**opening(), wire.OPENING: [CHANNEL, "Q", 0, 1, 1, 0, 1, ""]}, "no opening"),
        (wire.BEGIN, {**opening(), wire.OPENING: [CHANNEL, "Q", 0, 1, 1, False, 1]}, "no opening"),
        (wire.CONFIRM, {wire.LINK: "x", "luw": "A"}, "asked for"),
        (wire.CONFIRM, {wire.LINK: "x", "luw": 1, "sequence": 1}, "luw cannot be 1"),
        (wire.GO_ON, {wire.LINK: None, "transit_ms": 0}, "link cannot be None"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(
    client: ChannelClient, verb: str, request_: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadRequest) as refused:
        client.ask(verb, request_, timeout_s=60)
    assert said in refused.value.text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"descriptor": b""}, "a descriptor cannot be read"),
        ({"descriptor": b"\1\0" + bytes(20)}, "a descriptor cannot be read"),
        ({"descriptor": b"\2" + bytes(100)}, "a descriptor cannot be read"),
        ({"msg_id": b"m"}, "are no message's"),
        ({"correl_id": bytes(25)}, "are no message's"),
        ({"life_ms": -1}, "are no message's"),
    ],
)
def test_what_is_no_message_is_refused_and_its_batch_with_it(
    client: ChannelClient, two: QueueManager, wrong: dict[str, Any], said: str
) -> None:
    link = begun(client)
    with pytest.raises(BadRequest) as refused:
        sent(client, link, parcel(), parcel(**wrong))
    assert said in refused.value.text
    client.ask(wire.CONFIRM, {wire.LINK: link, "luw": "A", "sequence": 1}, timeout_s=60)
    assert bodies(two) == []


def test_a_batch_of_which_a_part_is_missing_is_not_put(
    client: ChannelClient, server: FlightServer, two: QueueManager
) -> None:
    link = begun(client)
    asked = {wire.SEND: {wire.LINK: link, "is_kept": False, "parcel_count": 1}}
    descriptor = flight.FlightDescriptor.for_command(json.dumps(asked).encode())
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    with flight.connect(server.url) as connection:
        writer, answers = connection.do_put(descriptor, PARCEL, options)
        writer.done_writing()
        answer = answers.read().to_pybytes()
        writer.close()
    assert answer == b'{"down": "0 of 1 messages have come"}'
    assert two.curdepth("IN") == 0


def test_an_unknown_channel_is_refused_by_its_reason(client: ChannelClient) -> None:
    wrong = {**opening(), wire.OPENING: ["NONE", "QM1", 0, 50, 1_000, False, 300, ""]}
    answer = client.ask(wire.BEGIN, wrong, timeout_s=60)
    assert answer[wire.REFUSED] == rc.MQRC_UNKNOWN_CHANNEL_NAME
    assert answer[wire.TEXT] == "QM2 has no CHANNEL(NONE) CHLTYPE(RCVR)"


# The time on the link (E7)


class Heard(VirtualClock):
    """A clock that tells when somebody on another thread has asked it."""

    def __init__(self) -> None:
        """Begin unasked."""
        super().__init__(START_MS)
        self.is_asked = threading.Event()
        self._own = threading.get_ident()

    def now_ms(self) -> int:
        """Return the time."""
        now_ms = super().now_ms()
        if threading.get_ident() != self._own:
            # Only now: the test lets time pass at once.
            self.is_asked.set()
        return now_ms


def test_E7_a_batch_that_comes_in_slowly_is_timed_by_the_clock_of_its_receiver() -> None:
    """A large batch on a thin line: only what neither end has spent is halved."""
    clock = Heard()
    with receiving(clock) as two, served(two) as server:
        connection = flight.connect(server.url)
        options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
        client = ChannelClient(server.url)
        link = begun(client)
        clock.is_asked.clear()
        asked = {wire.SEND: {wire.LINK: link, "is_kept": True, "parcel_count": 2}}
        descriptor = flight.FlightDescriptor.for_command(json.dumps(asked).encode())
        writer, answers = connection.do_put(descriptor, PARCEL, options)
        assert clock.is_asked.wait(60)
        clock.advance(1_500)
        rows = [parcel(life_ms=20_000), parcel(life_ms=2_000)]
        columns = zip(*rows, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, PARCEL, strict=True)]
        writer.write_batch(pa.record_batch(arrays, schema=PARCEL))
        writer.done_writing()
        assert json.loads(answers.read().to_pybytes()) == {wire.ANSWER: 1_500}
        writer.close()
        assert bodies(two) == []
        go_on = {wire.LINK: link, "transit_ms": 500}
        assert client.ask(wire.GO_ON, go_on, timeout_s=60) == {wire.ANSWER: None}
        confirm = {wire.LINK: link, "luw": "A", "sequence": 2}
        assert client.ask(wire.CONFIRM, confirm, timeout_s=60) == {wire.ANSWER: None}
        assert [m.remaining_ms for m in messages(two)] == [18_000]
        connection.close()


def test_E7_over_a_network_each_batch_is_timed(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    line = Line(clock, 2_000)

    def connect(definition: ChannelDefinition) -> Link:
        return FragileLink(NetworkLink(definition), line.at)

    one.channels.connect = connect
    one.channels.start(CHANNEL)
    for transit_ms in (0, 3_000):
        line.transit_ms = transit_ms
        put(one, b"x", time_to_live_ms=20_000)
    assert [m.remaining_ms for m in messages(two)] == [20_000, 17_000]
