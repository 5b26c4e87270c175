"""Channels over real sockets: TRPTYPE(TCP) leads to where the other queue manager is served."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec import msgpack

from mayfly import QueueManager
from mayfly.channel import ChannelDefinition, ChannelState, LinkDown, Opening, ReceiverLink
from mayfly.client.connection.channel_link import ChannelLink
from mayfly.engine import find_channel
from mayfly.lifetime.transmission import silence_ms
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.runtime import Runtime
from mayfly.servers.budget import Budget
from mayfly.services.dead_letter.dead_letters import dead_letter_of
from mayfly.testing import VirtualClock
from mayfly.verbs.contracts import channels
from mayfly.verbs.contracts.wire import DONE, FAILED, verb_of
from tests.channel.network_scene import TOKEN, Served, lead_to, served
from tests.channel.raw_sender import HEARTBEAT_S, RawSender, envelope
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
from tests.facts import wait_until
from tests.ports import held_port
from tests.servers.certificates import certificate

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
def one(clock: VirtualClock, server: Served) -> Iterator[QueueManager]:
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
def client(server: Served) -> Iterator[RawSender]:
    with RawSender(server.port) as client:
        yield client


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


def test_a_batch_that_is_longer_than_the_memory_for_messages_arrives_whole(
    one: QueueManager, two: QueueManager
) -> None:
    """It has begun, so nobody else is to wait for it; a message that never fits is set aside."""
    budget = Budget(2_000_000)
    with served(two, budget=budget) as narrow:
        lead_to(one, narrow.port)
        done(one, "DEFINE QLOCAL(DEAD)\nALTER QMGR DEADQ(DEAD)")
        data = [bytes([n]) * 1_500_000 for n in range(4)]
        for body in (*data, bytes(2_000_001)):
            put(one, body)
        one.channels.start(CHANNEL)
        assert sorted(bodies(two)) == sorted(data)
        [message] = messages(one, "DEAD")
        letter = dead_letter_of(message)
        assert letter is not None
        assert letter.reason == rc.MQRC_MSG_TOO_BIG_FOR_CHANNEL
        done(one, f"STOP CHANNEL({CHANNEL})")
    assert budget.left_bytes == 2_000_000


def test_what_has_no_room_waits_for_it(
    one: QueueManager, two: QueueManager, clock: VirtualClock, there_clock: VirtualClock
) -> None:
    """MRTMR runs at the sender, whose receiver counts its life on."""
    done(two, "ALTER QLOCAL(IN) MAXDEPTH(1)")
    for body in (b"1", b"2"):
        put(one, body, time_to_live_ms=60_000)
    one.channels.start(CHANNEL)
    assert standing(one).status is ChannelState.PAUSED
    assert bodies(two) == []
    done(two, "ALTER QLOCAL(IN) MAXDEPTH(2)")
    there_clock.advance(1_000)
    clock.advance(1_000)
    assert standing(one).status is ChannelState.RUNNING
    assert [(m.body, m.remaining_tenths) for m in messages(two)] == [(b"1", 590), (b"2", 590)]


def test_Q1_what_nobody_takes_is_a_dead_letter_there(one: QueueManager, two: QueueManager) -> None:
    one.channels.start(CHANNEL)
    put(one, b"lost", queue="NOWHERE@QM2")
    assert two.curdepth("SYSTEM.DEAD.LETTER.QUEUE") == 1
    assert standing(one).status is ChannelState.RUNNING


# The way


def test_the_first_address_that_answers_is_taken(
    one: QueueManager, two: QueueManager, server: Served, port: int
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
    assert standing(one).status is ChannelState.RETRYING
    assert f"nobody listens on 127.0.0.1({port})" in standing(one).failure
    with served(two, port=port):
        clock.advance(59_999)
        assert standing(one).status is ChannelState.RETRYING
        clock.advance(1)
        assert (standing(one).status, bodies(two)) == (ChannelState.RUNNING, [b"x"])


def test_a_server_that_is_gone_ends_the_link_and_nothing_is_lost(
    clock: VirtualClock, two: QueueManager
) -> None:
    with sending(clock) as one:
        with served(two) as first:
            lead_to(one, first.port)
            one.channels.start(CHANNEL)
            put(one, b"1")
        put(one, b"2")
        assert (standing(one).status, one.curdepth(XMITQ)) == (ChannelState.RETRYING, 1)
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
    assert standing(one).status is ChannelState.RETRYING
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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    with served(two, tls_context=context) as server, sending(clock) as one:
        lead_to(one, server.port, more="SSLCIPH(ANY_TLS12_OR_HIGHER)")
        put(one, b"secret")
        one.channels.start(CHANNEL)
        assert standing(one).status is ChannelState.RETRYING
        monkeypatch.setenv("MAYFLY_TLS_ROOTS", str(chain))
        one.channels.start(CHANNEL)
        assert bodies(two) == [b"secret"]


@pytest.fixture
def several(two: QueueManager) -> Iterator[Served]:
    """A server of QM2 and of QM3, which has a receiver of the same name and a queue IN."""
    with QueueManager("QM3") as three, served(three, two) as server:
        done(three, f"DEFINE QLOCAL(IN)\nDEFINE CHANNEL({CHANNEL}) CHLTYPE(RCVR)")
        yield server


def test_QMNAME_says_which_of_several_queue_managers_is_meant(
    clock: VirtualClock, two: QueueManager, several: Served
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
    ("more", "said"),
    [
        ("", "{} serves several queue managers, or none: QMNAME says which"),
        ("QMNAME('')", "{} serves several queue managers, or none: QMNAME says which"),
        ("QMNAME(QM9)", "no queue manager 'QM9' is served at {}"),
    ],
)
def test_without_the_QMNAME_of_one_of_several_nothing_travels(
    clock: VirtualClock, two: QueueManager, several: Served, more: str, said: str
) -> None:
    with sending(clock) as one:
        lead_to(one, several.port, more=more)
        put(one, b"x")
        one.channels.start(CHANNEL)
        assert standing(one).status is ChannelState.RETRYING
        named = said.format(f"127.0.0.1({several.port})")
        assert standing(one).failure == f"MQRC_Q_MGR_NAME_ERROR (2058): {named}"
        assert (bodies(two), one.curdepth(XMITQ)) == ([], 1)
        # DISPLAY CHSTATUS says it, too.
        [row] = one.mqsc(f"DISPLAY CHSTATUS({CHANNEL}) FAILURE").rows
        assert row["FAILURE"] == standing(one).failure


def test_another_QMNAME_than_the_one_that_is_served_is_refused(
    one: QueueManager, server: Served
) -> None:
    lead_to(one, server.port, more="QMNAME(QM3)")
    one.channels.start(CHANNEL)
    assert "no queue manager 'QM3' is served at 127.0.0.1" in standing(one).failure
    lead_to(one, server.port, more="QMNAME(QM2)")
    one.channels.start(CHANNEL)
    assert standing(one).status is ChannelState.RUNNING


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


def test_a_link_that_somebody_has_closed_does_nothing_more(
    one: QueueManager, two: QueueManager
) -> None:
    """STOP CHANNEL MODE(FORCE) comes from another thread, between any two calls."""
    definition = find_channel(one.engine, CHANNEL)
    link = ChannelLink(definition, "QM1", Runtime())
    link.negotiate(Opening(CHANNEL, "QM1", 0, 50, 1_000, False, 300, "a" * 32))
    assert standing(two).status is ChannelState.RUNNING
    link.close()
    link.close()
    assert standing(two).status is ChannelState.INACTIVE
    for call in (
        partial(link.go_on, 0),
        partial(link.confirm, "A", 1),
        partial(link.ping, CHANNEL),
    ):
        with pytest.raises(LinkDown, match="the link is closed"):
            call()


# A sender that falls silent


@pytest.mark.parametrize("late_ms", [-1, 0])
def test_a_sender_that_is_silent_too_long_is_given_up(
    client: RawSender, two: QueueManager, there_clock: VirtualClock, late_ms: int
) -> None:
    assert silence_ms(HEARTBEAT_S) == SILENCE_MS
    client.begun()
    there_clock.advance(100_000)
    assert client.sent(envelope()) == [DONE, None]
    there_clock.advance(SILENCE_MS + late_ms)
    if late_ms < 0:
        assert (client.confirmed(), bodies(two)) == ([DONE, None], [b"x"])
    else:
        assert client.end_said() == f"CHANNEL({CHANNEL}) has ended at QM2"
        assert (two.curdepth("IN"), bodies(two)) == (0, [])
        assert standing(two).status is ChannelState.INACTIVE


def test_a_ping_says_that_the_sender_lives(
    client: RawSender, two: QueueManager, there_clock: VirtualClock
) -> None:
    client.begun()
    for _ in range(3):
        there_clock.advance(SILENCE_MS - 1)
        assert client.ask(verb_of(channels.Ping)) == [DONE, None]
    assert standing(two).status is ChannelState.RUNNING


def test_HBINT_0_waits_for_ever(
    client: RawSender, two: QueueManager, there_clock: VirtualClock
) -> None:
    assert silence_ms(0) is None
    client.begun(heartbeat_s=0)
    there_clock.advance(10**9)
    assert standing(two).status is ChannelState.RUNNING


def test_silence_is_twice_a_short_heartbeat_and_a_minute_longer_than_a_long_one() -> None:
    assert [silence_ms(s) for s in (1, 59, 60, 61)] == [2_000, 118_000, 120_000, 121_000]


def test_whoever_sends_now_takes_the_place_of_who_sent_before(
    client: RawSender, server: Served, two: QueueManager
) -> None:
    client.begun()
    client.sent(envelope(body=b"1"))
    with RawSender(server.port) as second:
        second.begun()
        assert client.end_said() == f"CHANNEL({CHANNEL}) has ended at QM2"
        second.sent(envelope(body=b"2"))
        second.confirmed("B")
    assert bodies(two) == [b"2"]


def test_another_of_the_name_is_refused_while_a_sender_has_its_link(
    client: RawSender, server: Served, two: QueueManager
) -> None:
    """Before anything is committed: else they would cut each other off for ever."""
    client.begun()
    with RawSender(server.port) as other:
        other.introduced()
        outcome, _class, reason, said = other.negotiated(instance_id="b" * 32)
        assert (outcome, reason) == (FAILED, rc.MQRC_CHANNEL_CONFIG_ERROR)
        assert "another queue manager named QM1 sends on QM1.TO.QM2" in said
        client.sent(envelope(body=b"1"))
        assert client.ask(verb_of(channels.End)) == [DONE, None]
        assert other.negotiated(instance_id="b" * 32)[0] == DONE
    assert bodies(two) == []


def test_the_end_of_a_link_backs_out_what_is_not_confirmed(
    client: RawSender, two: QueueManager
) -> None:
    client.begun()
    client.sent(envelope())
    assert client.ask(verb_of(channels.End)) == [DONE, None]
    assert (two.curdepth("IN"), standing(two).status) == (0, ChannelState.INACTIVE)
    assert client.is_closed()


def test_a_connection_that_is_lost_backs_out_what_is_not_confirmed(
    client: RawSender, two: QueueManager
) -> None:
    client.begun()
    client.sent(envelope())
    assert two.counts("IN").uncommitted == 1
    client.socket.close()
    wait_until(lambda: standing(two).status is ChannelState.INACTIVE)
    assert (two.curdepth("IN"), bodies(two)) == (0, [])


# What no sender of ours would say


@pytest.mark.parametrize(
    ("verb", "fields", "said"),
    [
        (
            verb_of(channels.Negotiation),
            [],
            "negotiate: expected array of at least length 7, got 1",
        ),
        (
            verb_of(channels.Negotiation),
            [0, 0, 1, False, 1, ""],
            "negotiate.batch_size: 0: expected int >= 1",
        ),
        (
            verb_of(channels.Negotiation),
            [-1, 1, 1, False, 1, ""],
            "negotiate.sequence: -1: expected int >= 0",
        ),
        (
            verb_of(channels.Negotiation),
            [0, 1, 1, 0, 1, ""],
            "negotiate.is_reset: 0: expected bool, got int",
        ),
        (
            verb_of(channels.Negotiation),
            [0, 1, 1, False, 1],
            "expected array of at least length 7, got 6",
        ),
        (
            verb_of(channels.Confirm),
            ["A"],
            "confirm: expected array of at least length 3, got 2",
        ),
        (verb_of(channels.Confirm), [1, 1], "confirm.luw: 1: expected str, got int"),
        (verb_of(channels.GoOn), [None], "go_on.transit_ms: None: expected int, got None"),
        (
            verb_of(channels.PutBatch),
            [1, None],
            "put_batch.envelopes: None: expected array, got None",
        ),
    ],
)
def test_a_call_that_makes_no_sense_is_refused_and_the_link_goes_on(
    client: RawSender, verb: int, fields: list[object], said: str
) -> None:
    client.introduced()
    outcome, _class, reason, detail = client.ask(int(verb), *fields)
    assert (outcome, reason) == (FAILED, rc.MQRC_UNEXPECTED_ERROR)
    assert said in detail
    assert client.negotiated()[0] == DONE


@pytest.mark.parametrize("verb", [1, 5, 999, "ping", verb_of(channels.Introduction)])
def test_a_verb_of_programs_or_of_nobody_is_refused(client: RawSender, verb: object) -> None:
    client.begun()
    assert client.ask(verb)[2] == rc.MQRC_FUNCTION_NOT_SUPPORTED


def test_nothing_is_put_before_the_channel_has_begun(client: RawSender, two: QueueManager) -> None:
    client.introduced()
    for verb, fields in (
        (verb_of(channels.GoOn), [0]),
        (verb_of(channels.Confirm), ["A", 1]),
        (verb_of(channels.PutBatch), [1, [envelope()]]),
    ):
        assert client.ask(int(verb), *fields)[0] == FAILED
    assert two.curdepth("IN") == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"descriptor": b""}, "envelope.descriptor: the frame is no msgpack array"),
        (
            {"descriptor": msgpack.encode([1])},
            "envelope.descriptor: expected array of at least length 24, got 1",
        ),
        ({"descriptor": bytes(5_000)}, "envelopes[0].descriptor: b'"),
        ({"msg_id": b"m"}, "envelopes[0].msg_id: b'm': expected bytes of length >= 24"),
        ({"correl_id": bytes(25)}, "envelopes[0].correl_id: b'"),
        ({"life_ms": -1}, "envelopes[0].life_ms: -1: expected int >= 0"),
        ({"queue": 5}, "envelopes[0].queue: 5: expected str, got int"),
        ({"body": "text"}, "envelopes[0].body: 'text': expected bytes, got str"),
        ({"is_fast": 1}, "envelopes[0].is_fast: 1: expected bool, got int"),
    ],
)
def test_what_is_no_message_is_refused_and_its_batch_with_it(
    client: RawSender, two: QueueManager, wrong: dict[str, object], said: str
) -> None:
    client.begun()
    assert client.ask(verb_of(channels.Envelopes), [envelope()]) == [DONE, None]
    outcome, _class, reason, detail = client.ask(verb_of(channels.PutBatch), 2, [envelope(**wrong)])
    assert (outcome, reason) == (FAILED, rc.MQRC_UNEXPECTED_ERROR)
    assert said in detail
    client.confirmed()
    assert bodies(two) == []


def test_a_batch_of_which_a_part_is_missing_is_not_put(
    client: RawSender, two: QueueManager
) -> None:
    client.begun()
    outcome, _class, reason, detail = client.ask(verb_of(channels.PutBatch), 2, [envelope()])
    assert (outcome, reason) == (FAILED, rc.MQRC_CONNECTION_BROKEN)
    assert detail == "1 of 2 messages have come"
    assert two.curdepth("IN") == 0


def test_a_batch_has_at_most_as_many_messages_as_both_sides_have_agreed_on(
    client: RawSender, two: QueueManager
) -> None:
    client.introduced()
    client.negotiated(batch_size=3)
    assert client.ask(verb_of(channels.Envelopes), [envelope()] * 3) == [DONE, None]
    refused = client.ask(verb_of(channels.Envelopes), [envelope()])
    assert refused[2:] == [rc.MQRC_UNEXPECTED_ERROR, "parcels: 4 messages for a batch of 3"]
    # All of it is forgotten.
    assert client.sent(envelope(body=b"next")) == [DONE, None]
    assert client.confirmed() == [DONE, None]
    assert bodies(two) == [b"next"]


def test_an_unknown_channel_is_refused_by_its_reason(
    client: RawSender, caplog: pytest.LogCaptureFixture
) -> None:
    answer = client.introduced(channel="NONE")
    assert (answer[0], answer[2]) == (FAILED, rc.MQRC_UNKNOWN_CHANNEL_NAME)
    [record] = [r for r in caplog.records if r.name == "mayfly.security"]
    assert (vars(record)["amq"], vars(record)["channel"]) == ("AMQ9519E", "NONE")


# The time on the link (E7)


def test_E7_a_batch_that_comes_in_slowly_is_timed_by_the_clock_of_its_receiver(
    client: RawSender, two: QueueManager, there_clock: VirtualClock
) -> None:
    """A large batch on a thin line: only what neither end has spent is halved."""
    client.begun()
    assert client.ask(verb_of(channels.Envelopes), []) == [DONE, None]
    there_clock.advance(1_500)
    rows = [envelope(life_ms=20_000), envelope(life_ms=2_000)]
    assert client.ask(verb_of(channels.KeepBatch), 2, rows) == [DONE, 1_500]
    assert bodies(two) == []
    assert client.ask(verb_of(channels.GoOn), 500) == [DONE, None]
    assert client.confirmed("A", 2) == [DONE, None]
    assert [m.remaining_ms for m in messages(two)] == [18_000]


def test_E7_over_a_network_each_batch_is_timed(
    one: QueueManager, two: QueueManager, clock: VirtualClock
) -> None:
    line = Line(clock, 2_000)

    def connect(definition: ChannelDefinition) -> ReceiverLink:
        return FragileLink(ChannelLink(definition, "QM1", Runtime()), line.at)

    one.channels.connect = connect
    one.channels.start(CHANNEL)
    for transit_ms in (0, 3_000):
        line.transit_ms = transit_ms
        put(one, b"x", time_to_live_ms=20_000)
    assert [m.remaining_ms for m in messages(two)] == [20_000, 17_000]
