"""The client: the verbs of a session and of an administrator over a connection."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import mayfly
from mayfly import MQError, QueueManager
from mayfly.client import Client
from mayfly.client.open_objects import MAX_OPEN, OpenObjects
from mayfly.mqi import constants as c
from mayfly.testing import VirtualClock
from mayfly.verbs.schedule import Receipt, ScheduleFilter
from tests.client.conftest import MakeClient
from tests.conftest import Connect
from tests.facts import wait_until
from tests.spec.scene import Running, ends

DAY_MS = 86_400_000


def test_a_message_has_what_its_put_said(make_client: MakeClient, clock: VirtualClock) -> None:
    client = make_client("anna")
    msg_id = client.put(
        "Q1",
        bytearray(b"two teas"),  # type: ignore[arg-type]  # what a program may do
        time_to_live_ms=60_000,
        priority=7,
        persistent=False,
        correl_id="0a01",
        report=c.MQRO_COD,
        reply_to_q="ANSWERS@QM2",
        msg_type=c.MQMT_REQUEST,
        format_name="MQSTR",
        properties={"colour": "red"},
    )
    clock.advance(15_000)
    message = client.get("Q1", correl_id=bytes.fromhex("0a01"))
    assert message is not None
    assert (message.msg_id, message.data, message.priority) == (msg_id, b"two teas", 7)
    assert (message.remaining_ms, message.remaining_tenths) == (45_000, 450)
    assert dict(message.properties) == {"colour": "red"}
    asked = message.descriptor
    assert (asked.report, asked.msg_type) == (c.MQRO_COD, c.MQMT_REQUEST)
    assert (asked.reply_to_q, asked.reply_to_q_mgr) == ("ANSWERS", "QM2")
    assert asked.user_identifier == "anna"


@pytest.mark.parametrize("persistent", [True, False])
def test_put_many_puts_in_order_with_one_life(
    client: Client, clock: VirtualClock, queue_manager: QueueManager, *, persistent: bool
) -> None:
    bodies = [str(n).encode() for n in range(1_200)]
    ids = client.put_many("Q1", bodies, time_to_live_ms=1_000, persistent=persistent)
    assert len(set(ids)) == 1_200
    first = client.get("Q1", msg_id=ids[0])
    assert first is not None
    assert (first.body, first.remaining_ms) == (b"0", 1_000)
    assert [message.body for message in client.browse("Q1")] == bodies[1:]
    clock.advance(1_000)
    assert client.get("Q1") is None
    assert client.put_many("Q1", []) == []


def test_put_many_says_how_many_are_put(client: Client, queue_manager: QueueManager) -> None:
    assert queue_manager.mqsc("DEFINE QLOCAL(SMALL) MAXDEPTH(2)").ok
    with pytest.raises(MQError, match="message 3 of 4 is refused, 2 are put") as caught:
        client.put_many("SMALL", [b"1", b"2", b"3", b"4"])
    assert caught.value.reason == 2053
    assert queue_manager.curdepth("SMALL") == 2
    with pytest.raises(MQError) as caught:
        client.put_many("Q1", [b"x"], time_to_live_ms=0)
    assert caught.value.reason == 2013


def test_put_many_is_part_of_the_unit_of_work(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    client = make_client(transacted=True)
    client.put_many("Q1", [b"1", b"2"])
    assert queue_manager.counts("Q1").uncommitted == 2
    client.backout()
    assert queue_manager.counts("Q1").uncommitted == 0
    client.put_many("Q1", [b"3"])
    client.commit()
    assert queue_manager.curdepth("Q1") == 1


def test_get_many_takes_what_is_there_in_the_order_of_gets(
    client: Client, clock: VirtualClock, queue_manager: QueueManager
) -> None:
    client.put_many("Q1", [b"%d" % number for number in range(20)])
    client.put("Q1", b"first", priority=9, time_to_live_ms=1_000, properties={"colour": "red"})
    client.put("Q1", b"late", priority=9, time_to_live_ms=999)
    clock.advance(999)
    found = client.get_many("Q1", 10)
    assert [message.data for message in found] == [b"first", *(b"%d" % n for n in range(9))]
    assert (dict(found[0].properties), found[0].remaining_ms) == ({"colour": "red"}, 1)
    assert sorted(end.outcome for end in ends(queue_manager, "Q1")) == ["expired", *["got"] * 10]
    assert len(client.get_many("Q1", 99)) == 11
    assert client.get_many("Q1", 99) == []


def test_get_many_is_part_of_the_unit_of_work(
    make_client: MakeClient, queue_manager: QueueManager
) -> None:
    client = make_client(transacted=True)
    client.put_many("Q1", [b"1", b"2", b"3"])
    assert [message.body for message in client.get_many("Q1", 2)] == [b"1", b"2"]
    client.commit()
    assert [end.outcome for end in ends(queue_manager, "Q1")] == ["got", "got"]
    assert [message.body for message in client.get_many("Q1", 2)] == [b"3"]
    client.backout()
    assert [message.backout_count for message in client.get_many("Q1", 2)] == [1]


def test_get_many_waits_for_the_first_message_alone(
    make_client: MakeClient, queue_manager: QueueManager, clock: VirtualClock
) -> None:
    client, putter = make_client(), make_client(transacted=True)
    number = queue_manager.engine.registry.queue("Q1").number
    for most, count in ((9, 3), (2, 2), (1, 1)):
        found = Running(partial(client.get_many, "Q1", most, wait_ms=1_000))
        wait_until(lambda: queue_manager.engine.waits.is_waited_on(number))
        putter.put_many("Q1", [b"1", b"2", b"3"])
        putter.commit()
        got = found.finish()
        assert isinstance(got, list)
        assert len(got) == count
        client.get_many("Q1", 9)
    found = Running(lambda: client.get_many("Q1", 9, wait_ms=1_000))
    wait_until(lambda: queue_manager.engine.waits.is_waited_on(number))
    clock.advance(1_000)
    assert found.finish() == []


@pytest.mark.parametrize("most", [0, -1, True, "5", 10_001], ids=repr)
def test_get_many_refuses_a_wrong_number(client: Client, most: int) -> None:
    with pytest.raises(MQError, match=f"most {most!r} is no number from 1 to 10000") as caught:
        client.get_many("Q1", most)
    assert caught.value.reason == 2046


def test_an_empty_queue_is_None_and_a_wrong_call_has_its_reason_code(client: Client) -> None:
    assert client.get("Q1") is None
    assert client.get("Q1", msg_id=b"none") is None
    calls: list[tuple[Callable[[], object], int]] = [
        (lambda: client.put("NONE", b"x"), 2085),
        (lambda: client.get("NONE"), 2085),
        (lambda: next(client.browse("NONE")), 2085),
        (lambda: client.put("Q1", b"x", time_to_live_ms=0), 2013),
        (lambda: client.put("Q1", b"x", correl_id="xyz"), 2026),
        (lambda: client.get("Q1", selector="colour ="), 2459),
        (lambda: client.get("Q1", wait_ms=-2), 2090),
        (lambda: client.resume("none"), 2428),
    ]
    for call, reason in calls:
        with pytest.raises(MQError) as raised:
            call()
        assert raised.value.reason == reason
    with pytest.raises(TypeError, match="body must be bytes, not str"):
        client.put("Q1", "x")  # type: ignore[arg-type]  # what a program may do


def test_browse_reads_on_as_it_is_asked_and_leaves_the_messages(client: Client) -> None:
    for body in (b"1", b"2", b"3"):
        client.put("Q1", body, properties={"n": int(body)})
    seen = client.browse("Q1")
    assert next(seen).data == b"1"
    client.put("Q1", b"4", properties={"n": 4})
    assert [message.data for message in seen] == [b"2", b"3", b"4"]
    assert [message.data for message in client.browse("Q1", selector="n > 2")] == [b"3", b"4"]
    got = client.get("Q1", selector="n = 3")
    assert got is not None
    assert got.data == b"3"
    assert client.admin.curdepth("Q1") == 3


def test_transacted_verbs_wait_for_the_commit(make_client: MakeClient) -> None:
    other = make_client()
    with make_client(transacted=True) as client:
        client.put("Q1", b"one")
        assert other.get("Q1") is None
        client.commit()
        client.put("Q1", b"two")
        client.backout()
        message = client.get("Q1")
        assert message is not None
        assert (message.body, client.get("Q1")) == (b"one", None)
        client.backout()
        again = client.get("Q1")
        assert again is not None
        assert again.backout_count == 1
    assert other.get("Q1") is None
    failing = make_client(transacted=True)
    failing.put("Q1", b"three")
    failing.__exit__(ValueError, ValueError(), None)
    assert other.get("Q1") is None


def test_delayed_messages_and_their_schedule(client: Client, clock: VirtualClock) -> None:
    msg_id = client.put("Q1", b"later", delay_ms=5_000)
    assert client.schedule.count("Q1") == 1
    [waiting] = client.schedule.list(ScheduleFilter(queue="Q1"))
    assert waiting.msg_id == msg_id
    client.schedule.reschedule(msg_id, delay_ms=1_000)
    clock.advance(999)
    assert client.get("Q1") is None
    clock.advance(1)
    assert client.get("Q1", msg_id=msg_id) is not None


@pytest.mark.parametrize("ends_by", ["commit", "backout"])
def test_a_transacted_client_changes_the_schedule_in_its_unit_of_work(
    make_client: MakeClient, client: Client, queue_manager: QueueManager, ends_by: str
) -> None:
    """As a transacted session; another client is told that the message is locked until then."""
    unit = make_client(transacted=True)
    cancelled, moved = (client.put("Q1", b"later", delay_ms=5_000) for _ in range(2))
    assert unit.schedule.cancel(cancelled) is Receipt.CANCELLED
    assert unit.schedule.reschedule(moved, delay_ms=90_000) is Receipt.RESCHEDULED
    unit.put("Q1", b"instead")
    assert client.schedule.cancel(cancelled) is Receipt.LOCKED
    getattr(unit, ends_by)()
    is_kept = ends_by == "commit"
    assert (client.schedule.show(cancelled) is None) == is_kept
    shown = client.schedule.show(moved)
    assert shown is not None
    delay_ms = shown.deliver_at_ms - client.schedule.now_ms()
    assert delay_ms == (90_000 if is_kept else 5_000)
    assert queue_manager.counts("Q1").live == is_kept
    # A client that is not transacted is durable at once beside it.
    other = moved if is_kept else cancelled
    assert client.schedule.cancel(other) is Receipt.CANCELLED
    unit.backout()
    assert client.schedule.show(other) is None


def test_publications_and_subscriptions(client: Client) -> None:
    assert client.publish("a/b", b"none", warn_if_no_subscribers=True).warning == 2550
    client.publish("a/kept", b"kept", retain=True)
    subscription = client.subscribe("a/#", correl_id="0b")
    assert subscription.facts.topic == "a/#"
    published = client.publish("a/b", b"one", time_to_live_ms=1_000)
    assert published.warning == 0
    kept, one = subscription.get(), subscription.get()
    assert kept is not None
    assert one is not None
    assert (kept.body, kept.topic) == (b"kept", "a/kept")
    assert (one.body, one.topic, one.remaining_ms) == (b"one", "a/b", 1_000)
    assert one.correl_id == b"\x0b".ljust(24, b"\0")
    assert subscription.get() is None
    subscription.close()
    news = client.subscribe("a/#", retained=False)
    assert news.get() is None
    asking = client.subscribe("a/#", on_request=True)
    assert (asking.get(), asking.request_retained()) == (None, 1)
    assert asking.get() is not None


def test_a_durable_subscription_collects_until_it_is_ended(make_client: MakeClient) -> None:
    client = make_client()
    client.subscribe("t", name="s1", durable=True).close()
    client.publish("t", b"meanwhile")
    client.close()
    client = make_client()
    again = client.resume("s1")
    message = again.get()
    assert message is not None
    assert message.body == b"meanwhile"
    again.close()
    client.unsubscribe("s1")
    with pytest.raises(MQError) as raised:
        client.resume("s1")
    assert raised.value.reason == 2428


def test_a_client_administers(client: Client) -> None:
    assert client.name == "QM1"
    msg_id = client.put("Q1", b"x")
    # What the client has open itself does not stand in its own way.
    assert client.get("Q1") is not None
    assert client.mqsc("DELETE QLOCAL(Q1)").ok
    assert not client.mqsc("DISPLAY QLOCAL(Q1)").ok
    assert client.mqsc("DEFINE QLOCAL(Q1)").ok
    client.put("Q1", b"y")
    assert client.admin.counts("Q1").live == 1
    assert client.admin.verify().ok
    assert client.admin.why(msg_id).sentence


def test_a_user_of_limited_authority_administers_nothing(
    connect: Connect, queue_manager: QueueManager
) -> None:
    queue_manager.mqsc(
        "DEFINE QLOCAL(Q1)\n"
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('eve') AUTHADD(CONNECT)\n"
        "SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('eve') AUTHADD(PUT)"
    )
    with Client(connect(queue_manager, "eve")) as client:
        client.put("Q1", b"x")
        for call in (lambda: client.get("Q1"), lambda: client.mqsc("DISPLAY QMGR")):
            with pytest.raises(MQError) as raised:
                call()
            assert raised.value.reason == 2035


def test_queues_stay_open_until_others_need_the_room(
    client: Client, queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine is, none of them is closed because it is idle.
    monkeypatch.setattr(OpenObjects, "tick_ms", DAY_MS)
    names = [f"MANY.{number}" for number in range(MAX_OPEN + 3)]
    for name in names:
        queue_manager.mqsc(f"DEFINE QLOCAL({name})")
        client.put(name, b"x")

    def open_ones() -> list[str]:
        rows = queue_manager.mqsc("DISPLAY QSTATUS(MANY.*) OPPROCS").rows
        return [str(row["QUEUE"]) for row in rows if int(str(row["OPPROCS"]))]

    assert sorted(open_ones()) == sorted(names[3:])
    client.put(names[3], b"x")
    client.put(names[0], b"x")
    assert names[3] in open_ones()
    assert names[4] not in open_ones()
    client.close()
    assert open_ones() == []


def test_an_object_that_was_changed_is_opened_again(
    client: Client, queue_manager: QueueManager
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q2)\nDEFINE QALIAS(A) TARGET(Q1)")
    client.put("A", b"one")
    queue_manager.mqsc("ALTER QALIAS(A) TARGET(Q2)")
    client.put("A", b"two")
    assert client.get("A") is not None
    assert (queue_manager.curdepth("Q1"), queue_manager.curdepth("Q2")) == (1, 0)


def test_connect_by_name_never_opens_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    with QueueManager("QH", tmp_path / "QH") as manager:
        manager.mqsc("DEFINE QLOCAL(Q1)")
        with mayfly.connect("QH", user="bob") as client:
            client.put("Q1", b"kept", persistent=True)
    with pytest.raises(MQError, match="mayfly serve QH") as raised:
        mayfly.connect("QH")
    assert raised.value.reason == 2059
    with QueueManager("QH", tmp_path / "QH") as manager:
        assert manager.curdepth("Q1") == 1
        with mayfly.connect("QH", user="bob", transacted=True) as client:
            message = client.get("Q1")
            assert message is not None
            assert message.descriptor.user_identifier == "bob"
    with pytest.raises(MQError) as raised:
        mayfly.connect("NONE")
    assert raised.value.reason == 2058


def test_a_closed_client_says_so(client: Client) -> None:
    client.put("Q1", b"x")
    client.close()
    client.close()
    with pytest.raises(MQError) as raised:
        client.put("Q1", b"x")
    assert raised.value.reason == 2018


def test_queues_that_are_not_used_are_closed_so_that_others_may_delete_them(
    client: Client, queue_manager: QueueManager
) -> None:
    client.put("Q1", b"x")
    assert not queue_manager.mqsc("CLEAR QLOCAL(Q1)").ok
    wait_until(lambda: queue_manager.mqsc("CLEAR QLOCAL(Q1)").ok)
    assert client.get("Q1") is None
    wait_until(lambda: queue_manager.mqsc("DELETE QLOCAL(Q1)").ok)
    with pytest.raises(MQError) as raised:
        client.put("Q1", b"x")
    assert raised.value.reason == 2085


def test_a_queue_that_a_get_waits_on_stays_open(
    client: Client, queue_manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[OpenObjects] = []
    tick = OpenObjects.tick

    def noted(objects: OpenObjects) -> None:
        tick(objects)
        looks.append(objects)

    monkeypatch.setattr(OpenObjects, "tick", noted)
    monkeypatch.setattr(OpenObjects, "tick_ms", 1)
    number = queue_manager.engine.registry.queue("Q1").number
    got: list[bytes | None] = []

    def wait() -> None:
        message = client.get("Q1", wait_ms=-1)
        got.append(None if message is None else message.data)

    thread = threading.Thread(target=wait)
    thread.start()
    # The second look that finds a handle unused closes it.
    wait_until(lambda: queue_manager.engine.waits.is_waited_on(number) and len(looks) >= 8)
    with queue_manager.session() as session:
        session.put("Q1", b"x")
    thread.join(60)
    assert got == [b"x"]


def test_a_subscription_to_a_queue_of_its_own(client: Client, queue_manager: QueueManager) -> None:
    subscription = client.subscribe("news/#", queue="Q1")
    client.publish("news/today", b"x")
    assert queue_manager.curdepth("Q1") == 1
    message = subscription.get()
    assert message is not None
    assert (message.data, subscription.facts.queue) == (b"x", "Q1")
    subscription.close()
    client.publish("news/today", b"y")
    assert client.get("Q1") is None
    with pytest.raises(MQError) as raised:
        client.subscribe("news/#", queue="NONE")
    assert raised.value.reason == 2085


def test_a_shared_subscription_and_one_without_ones_own_publications(
    make_client: MakeClient,
) -> None:
    one, two = make_client("anna"), make_client("bob")
    shared = [each.subscribe("news", name="both", shared=True) for each in (one, two)]
    others = one.subscribe("news", no_local=True)
    two.publish("news", b"two")
    one.publish("news", b"one")
    got = [message.data for each in shared for _ in range(2) if (message := each.get())]
    assert sorted(got) == [b"one", b"two"]
    message = others.get()
    assert message is not None
    assert message.data == b"two"
    assert others.get() is None
    with pytest.raises(ValueError, match="shared and no_local"):
        one.subscribe("news", name="both", shared=True, queue="Q1")
