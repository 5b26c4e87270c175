"""pymqi's Subscription: MQSUB with its options and reason codes, MQSUBRQ, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mayfly import QueueManager, pymqi
from mayfly.pymqi import CMQC
from mayfly.testing import VirtualClock
from tests.spec.test_claims import full_disk

Fails = Callable[..., pymqi.MQMIError]

CREATE, RESUME, ALTER = CMQC.MQSO_CREATE, CMQC.MQSO_RESUME, CMQC.MQSO_ALTER
MANAGED, DURABLE = CMQC.MQSO_MANAGED, CMQC.MQSO_DURABLE
NEW = CREATE | DURABLE | MANAGED
NO_ID = bytes(24)


def sd_for(name: str | None = "S", options: int = NEW, topic: str = "a", **fields: Any) -> pymqi.SD:
    """Return an SD that makes a durable managed subscription, unless it is to say otherwise."""
    sd = pymqi.SD(Options=options, **fields)
    if name is not None:
        sd.set_vs("SubName", name)
    if topic:
        sd.set_vs("ObjectString", topic)
    return sd


def resumed(connection: pymqi.QueueManager, **fields: Any) -> pymqi.Subscription:
    """Resume ``S``."""
    return pymqi.Subscription(connection, sd_for(options=RESUME, topic="", **fields))


def publish(connection: pymqi.QueueManager, body: bytes, topic: str = "a", **md: Any) -> pymqi.MD:
    """Publish and return the MD."""
    descriptor = pymqi.MD(**md)
    pymqi.Topic(connection, topic_string=topic).pub(body, descriptor)
    return descriptor


def managed_queues(qm: QueueManager) -> list[str]:
    return [q.name for q in qm.engine.registry.queues() if q.name.startswith("SYSTEM.MANAGED.")]


def test_an_SD_begins_like_that_of_pymqi_and_is_344_bytes() -> None:
    sd = pymqi.SD()
    assert (sd.Options, sd.SubExpiry, sd.PubPriority, sd.Version) == (0, -1, -1, 1)
    assert (sd.get_vs("SubName"), sd.get_vs("SubNameVSPtr")) == (None, None)
    packed = pymqi.SD(SubExpiry=77, SubLevel=5).pack()
    assert len(packed) == sd.get_length() == 344
    assert packed[112:116] == (77).to_bytes(4, "little")
    sd.unpack(packed)
    assert (sd.SubExpiry, sd.SubLevel) == (77, 5)


def test_a_string_is_bytes_or_text_and_goes_with_its_structure() -> None:
    sd = pymqi.SD()
    sd.set_vs("SubName", "grün")
    sd.set_vs("SubUserDataVSPtr"[:-5], b"u\0v", vs_ccsid=1208)
    assert sd.get_vs("SubName") == "grün".encode()
    assert (sd.SubNameVSLength, sd.SubUserDataVSLength, sd.SubUserDataVSCCSID) == (5, 3, 1208)
    assert sd.get_vs("SubUserDataVSPtr") == b"u"
    other = pymqi.SD(**sd.get())
    assert other.get_vs("SubName") == "grün".encode()
    with pytest.raises(TypeError, match="SubName takes bytes or str, not int"):
        sd.set_vs("SubName", 5)  # type: ignore[arg-type]  # the wrong type is the point
    with pytest.raises(AttributeError, match="Nothing"):
        sd.set_vs("Nothing", "x")
    sd.set_vs("SubName")
    assert (sd.get_vs("SubName"), sd.SubNameVSLength) == (None, 0)


def test_without_anything_said_it_is_managed_and_ends_with_the_connection(
    queue_manager: QueueManager,
) -> None:
    connection = pymqi.connect("QM1")
    subscription = pymqi.Subscription(connection).sub(topic_string="a/#")
    publish(connection, b"x", "a/b")
    assert subscription.get() == b"x"
    [name] = managed_queues(queue_manager)
    assert name.startswith("SYSTEM.MANAGED.NDURABLE.")
    connection.disconnect()
    assert managed_queues(queue_manager) == []
    assert queue_manager.engine.registry.subscriptions.all() == []


def test_a_durable_one_collects_while_nobody_has_it_open(connection: pymqi.QueueManager) -> None:
    pymqi.Subscription(connection, sd_for()).close(close_sub_queue=True)
    publish(connection, b"1")
    publish(connection, b"2")
    subscription = resumed(connection)
    assert (subscription.get(), subscription.get()) == (b"1", b"2")


def test_create_or_resume_is_for_a_program_that_is_run_again(
    connection: pymqi.QueueManager,
) -> None:
    for turn in (b"1", b"2"):
        subscription = pymqi.Subscription(connection, sd_for(options=NEW | RESUME))
        publish(connection, turn)
        assert subscription.get() == turn
        subscription.close(close_sub_queue=True)


def test_resume_fills_in_what_the_subscription_is_like(
    queue_manager: QueueManager, connection: pymqi.QueueManager
) -> None:
    made = sd_for(SubExpiry=600, PubPriority=3)
    made.set_vs("SubUserData", "mine")
    made.set_vs("SelectionString", "JMSPriority > 2")
    pymqi.Subscription(connection, made).close(close_sub_queue=True)
    assert made.SubCorrelId != NO_ID
    sd = sd_for(options=RESUME, topic="")
    for name in ("SubUserData", "SelectionString", "ResObjectString"):
        sd.set_vs(name, b"", 0, 100)
    pymqi.Subscription(connection, sd)
    assert (sd.SubExpiry, sd.PubPriority, sd.SubCorrelId) == (600, 3, made.SubCorrelId)
    assert sd.Options == RESUME | DURABLE | MANAGED | CMQC.MQSO_FIXED_USERID
    assert sd.get_vs("SubUserData") == b"mine"
    assert sd.get_vs("SelectionString") == b"JMSPriority > 2"
    assert sd.get_vs("ResObjectString") == b"a"


def test_an_administrative_one_is_resumed_with_its_queue(
    queue_manager: QueueManager, connection: pymqi.QueueManager
) -> None:
    queue_manager.mqsc("DEFINE SUB('S') TOPICSTR('a') DEST(Q1) USERDATA('u')")
    publish(connection, b"1")
    sd = sd_for(options=RESUME, topic="")
    subscription = pymqi.Subscription(connection, sd)
    assert subscription.get() == b"1"
    assert sd.Options == RESUME | DURABLE | CMQC.MQSO_ANY_USERID
    subscription.close(close_sub_queue=True)
    publish(connection, b"2")
    assert pymqi.Queue(connection, "Q1").get() == b"2"


def test_a_queue_that_cannot_be_opened_for_it_is_2522(
    queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    queue_manager.mqsc("DEFINE SUB('S') TOPICSTR('a') DEST(Q1)")
    holder = pymqi.Queue(connection, "Q1", CMQC.MQOO_INPUT_EXCLUSIVE)
    assert fails(resumed, connection).reason == CMQC.MQRC_INVALID_DESTINATION
    holder.close()
    resumed(connection).close()


@pytest.mark.parametrize("way", ["queue", "handle", "name"])
def test_a_queue_of_its_own_is_given_as_object_handle_or_name(
    connection: pymqi.QueueManager, way: str
) -> None:
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_INPUT_SHARED)
    given = {"queue": queue, "handle": queue.get_handle(), "name": "Q1"}[way]
    subscription = pymqi.Subscription(connection, sub_queue=given)
    subscription.sub(sd_for(options=CREATE | DURABLE))
    publish(connection, b"x")
    assert subscription.get() == b"x"
    assert (subscription.get_sub_queue() is queue) == (way == "queue")
    subscription.close(CMQC.MQCO_REMOVE_SUB)
    publish(connection, b"unheard")
    connection.put1("Q1", b"still open")
    assert subscription.get() == b"still open"


def test_several_on_one_queue_are_told_apart_by_their_correlation(
    connection: pymqi.QueueManager, fails: Fails
) -> None:
    queue = pymqi.Queue(connection, "Q1", CMQC.MQOO_INPUT_SHARED)
    own, chosen = sd_for("1", CREATE), sd_for("2", CREATE | CMQC.MQSO_SET_CORREL_ID)
    chosen.SubCorrelId = b"chosen"
    passed = sd_for("3", CREATE | CMQC.MQSO_SET_CORREL_ID)
    opened = [pymqi.Subscription(connection).sub(sd, queue) for sd in (own, chosen, passed)]
    publish(connection, b"x", CorrelId=b"publisher's")
    ids = []
    for _subscription in opened:
        md = pymqi.MD()
        queue.get(None, md)
        ids.append(md.CorrelId.rstrip(b"\0"))
    assert ids == [own.SubCorrelId.rstrip(b"\0"), b"chosen", b"publisher's"]
    assert own.SubCorrelId not in (NO_ID, b"")
    assert (chosen.SubCorrelId, passed.SubCorrelId) == (b"chosen".ljust(24, b"\0"), NO_ID)


def test_a_queue_that_nothing_can_be_got_from_is_2019(
    queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    queue_manager.mqsc("DEFINE TOPIC(T) TOPICSTR('t')\nDEFINE QALIAS(A) TARGET(T) TARGTYPE(TOPIC)")
    closed = pymqi.Queue(connection, "Q1", CMQC.MQOO_INPUT_SHARED)
    handle = closed.get_handle()
    closed.close()
    for given in (
        None,
        pymqi.Queue(connection, "Q1"),
        pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT),
        handle,
        pymqi.Queue(connection, "A", CMQC.MQOO_OUTPUT),
    ):
        subscription = pymqi.Subscription(connection)
        error = fails(subscription.sub, sd_for(options=CREATE), given)
        assert error.reason == CMQC.MQRC_HOBJ_ERROR
    assert queue_manager.engine.registry.subscriptions.all() == []


def test_another_queue_than_its_own_is_2019_at_resume(
    queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q2)\nDEFINE SUB('S') TOPICSTR('a') DEST(Q1)")
    subscription = pymqi.Subscription(connection)
    sd = sd_for(options=RESUME, topic="")
    assert fails(subscription.sub, sd, "Q2").reason == CMQC.MQRC_HOBJ_ERROR
    subscription.sub(sd, "Q1").close()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (0, CMQC.MQRC_OPTIONS_ERROR),
        (MANAGED | DURABLE, CMQC.MQRC_OPTIONS_ERROR),
        (NEW | 1 << 30, CMQC.MQRC_OPTIONS_ERROR),
        (NEW | CMQC.MQSO_ANY_USERID | CMQC.MQSO_FIXED_USERID, CMQC.MQRC_OPTIONS_ERROR),
        (NEW | CMQC.MQSO_WILDCARD_CHAR | CMQC.MQSO_WILDCARD_TOPIC, CMQC.MQRC_OPTIONS_ERROR),
        (NEW | CMQC.MQSO_READ_AHEAD | CMQC.MQSO_NO_READ_AHEAD, CMQC.MQRC_OPTIONS_ERROR),
        (NEW | CMQC.MQSO_WILDCARD_CHAR, CMQC.MQRC_FUNCTION_NOT_SUPPORTED),
        (NEW | CMQC.MQSO_GROUP_SUB, CMQC.MQRC_FUNCTION_NOT_SUPPORTED),
        (NEW | CMQC.MQSO_SET_IDENTITY_CONTEXT, CMQC.MQRC_FUNCTION_NOT_SUPPORTED),
        (RESUME, CMQC.MQRC_NO_SUBSCRIPTION),
        (ALTER, CMQC.MQRC_NO_SUBSCRIPTION),
    ],
)
def test_wrong_options_make_nothing(
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    fails: Fails,
    options: int,
    reason: int,
) -> None:
    error = fails(pymqi.Subscription, connection, sd_for(options=options))
    assert (error.comp, error.reason) == (CMQC.MQCC_FAILED, reason)
    assert (queue_manager.engine.registry.subscriptions.all(), managed_queues(queue_manager)) == (
        [],
        [],
    )


WRONG = [
    ({"StrucId": b"OD  "}, CMQC.MQRC_SD_ERROR),
    ({"Version": 2}, CMQC.MQRC_SD_ERROR),
    ({"SubExpiry": 0}, CMQC.MQRC_EXPIRY_ERROR),
    ({"SubExpiry": -2}, CMQC.MQRC_EXPIRY_ERROR),
    ({"SubExpiry": 1_000_000_000}, CMQC.MQRC_EXPIRY_ERROR),
    ({"PubPriority": 10}, CMQC.MQRC_PRIORITY_ERROR),
    ({"PubPriority": -2}, CMQC.MQRC_PRIORITY_ERROR),
    ({"ObjectName": "NONE"}, CMQC.MQRC_UNKNOWN_OBJECT_NAME),
    ({"SubNameVSPtr": 0}, CMQC.MQRC_SUB_NAME_ERROR),
    ({"SubNameVSLength": 0}, CMQC.MQRC_SUB_NAME_ERROR),
    ({"SubUserDataVSLength": 1}, CMQC.MQRC_SUB_USER_DATA_ERROR),
    ({"SelectionStringVSLength": 1}, CMQC.MQRC_SELECTION_STRING_ERROR),
    ({"ObjectStringVSLength": 9}, CMQC.MQRC_TOPIC_STRING_ERROR),
    ({"ObjectStringVSLength": 0}, CMQC.MQRC_TOPIC_STRING_ERROR),
]


@pytest.mark.parametrize(("fields", "reason"), WRONG, ids=str)
def test_wrong_field_makes_nothing(
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    fails: Fails,
    fields: dict[str, int],
    reason: int,
) -> None:
    sd = sd_for()
    sd.set(**fields)
    before = sd.get()
    assert fails(pymqi.Subscription, connection, sd).reason == reason
    assert sd.get() == before
    assert (queue_manager.engine.registry.subscriptions.all(), managed_queues(queue_manager)) == (
        [],
        [],
    )


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        ("a =", CMQC.MQRC_SELECTOR_SYNTAX_ERROR),
        ("1 = 2", CMQC.MQRC_SELECTOR_ALWAYS_FALSE),
        ("x" * 10_241, CMQC.MQRC_SELECTION_STRING_ERROR),
    ],
)
def test_wrong_selector_makes_nothing(
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    fails: Fails,
    selector: str,
    reason: int,
) -> None:
    sd = sd_for()
    sd.set_vs("SelectionString", selector)
    assert fails(pymqi.Subscription, connection, sd).reason == reason
    assert managed_queues(queue_manager) == []
    od = pymqi.OD(Version=CMQC.MQOD_VERSION_4, ObjectName="Q1")
    od.set_vs("SelectionString", selector)
    assert fails(pymqi.Queue, connection, od, CMQC.MQOO_INPUT_SHARED).reason == reason


def test_a_topic_may_refuse_all_or_durable_subscriptions(
    queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    queue_manager.mqsc("DEFINE TOPIC(T) TOPICSTR('a') DURSUB(NO)")
    error = fails(pymqi.Subscription, connection, sd_for())
    assert error.reason == CMQC.MQRC_DURABILITY_NOT_ALLOWED
    queue_manager.mqsc("ALTER TOPIC(T) SUB(DISABLED)")
    sd = sd_for(options=CREATE | MANAGED)
    assert fails(pymqi.Subscription, connection, sd).reason == CMQC.MQRC_SUB_INHIBITED


def test_a_name_is_taken_once_and_open_once(connection: pymqi.QueueManager, fails: Fails) -> None:
    subscription = pymqi.Subscription(connection, sd_for())
    in_use, exists = CMQC.MQRC_SUBSCRIPTION_IN_USE, CMQC.MQRC_SUB_ALREADY_EXISTS
    assert fails(pymqi.Subscription, connection, sd_for()).reason == exists
    assert fails(resumed, connection).reason == in_use
    assert fails(pymqi.Subscription, connection, sd_for(options=NEW | ALTER)).reason == in_use
    subscription.close()
    assert fails(pymqi.Subscription, connection, sd_for()).reason == exists
    resumed_one = resumed(connection)
    for other in (sd_for("T"), sd_for("T", NEW | ALTER)):
        with pytest.raises(pymqi.PYIFError, match="already open"):
            resumed_one.sub(other)


def test_a_fixed_user_alone_may_resume_unless_anybody_may(
    queue_manager: QueueManager, fails: Fails
) -> None:
    ann, bob = pymqi.connect("QM1", user="ann"), pymqi.connect("QM1", user="bob")
    pymqi.Subscription(ann, sd_for()).close(close_sub_queue=True)
    for options in (RESUME, NEW | ALTER):
        error = fails(pymqi.Subscription, bob, sd_for(options=options))
        assert error.reason == CMQC.MQRC_IDENTITY_MISMATCH
    shared = sd_for(options=ALTER | DURABLE | MANAGED | CMQC.MQSO_ANY_USERID)
    pymqi.Subscription(ann, shared).close(close_sub_queue=True)
    [row] = queue_manager.mqsc("DISPLAY SUB('S') VARUSER SUBUSER").rows
    assert (row["VARUSER"], row["SUBUSER"]) == ("ANY", "ann")
    resumed(bob).close()


def test_C7_2035_another_user_needs_authority_on_the_topic_of_a_subscription(
    queue_manager: QueueManager, fails: Fails
) -> None:
    """Its name is enough for nothing: RESUME opens it, SUB is needed to alter it and to end it."""
    rights = "SET AUTHREC PROFILE(T) OBJTYPE(TOPIC) PRINCIPAL('{}') AUTHADD({})"
    assert queue_manager.mqsc(
        "DEFINE TOPIC(T) TOPICSTR('a')\n"
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann','bob') AUTHADD(CONNECT)\n"
        + rights.format("ann", "ALL")
    ).ok
    ann, bob = pymqi.connect("QM1", user="ann"), pymqi.connect("QM1", user="bob")
    anybody = CMQC.MQSO_ANY_USERID
    pymqi.Subscription(ann, sd_for(options=NEW | anybody)).close(close_sub_queue=True)
    publish(ann, b"x")
    for options in (RESUME, ALTER | DURABLE | MANAGED | anybody):
        error = fails(pymqi.Subscription, bob, sd_for(options=options, topic=""))
        assert error.reason == CMQC.MQRC_NOT_AUTHORIZED
    assert queue_manager.mqsc(rights.format("bob", "RESUME")).ok
    error = fails(
        pymqi.Subscription, bob, sd_for(options=ALTER | DURABLE | MANAGED | anybody, topic="")
    )
    assert error.reason == CMQC.MQRC_NOT_AUTHORIZED
    mine = resumed(bob)
    assert fails(mine.close, CMQC.MQCO_REMOVE_SUB).reason == CMQC.MQRC_NOT_AUTHORIZED
    mine.close(close_sub_queue=True)
    kept = resumed(ann)
    assert kept.get() == b"x"
    kept.close(CMQC.MQCO_REMOVE_SUB, close_sub_queue=True)


def test_alter_changes_what_may_be_changed(
    queue_manager: QueueManager, connection: pymqi.QueueManager
) -> None:
    pymqi.Subscription(connection, sd_for()).close(close_sub_queue=True)
    sd = sd_for(options=ALTER | DURABLE | MANAGED | CMQC.MQSO_SET_CORREL_ID, SubExpiry=70)
    sd.set(SubCorrelId=b"C", PubPriority=8)
    sd.set_vs("SubUserData", "new")
    subscription = pymqi.Subscription(connection, sd)
    publish(connection, b"x")
    md = pymqi.MD()
    assert subscription.get(None, md) == b"x"
    assert (md.CorrelId, md.Priority) == (b"C".ljust(24, b"\0"), 8)
    [row] = queue_manager.mqsc("DISPLAY SUB('S')").rows
    assert (row["USERDATA"], row["EXPIRY"], row["PUBPRTY"]) == ("new", 70, 8)


def test_alter_gives_it_another_queue(
    queue_manager: QueueManager, connection: pymqi.QueueManager
) -> None:
    queue_manager.mqsc("DEFINE QLOCAL(Q2)")
    pymqi.Subscription(connection).sub(sd_for(options=CREATE | DURABLE), "Q1").close()
    altered = pymqi.Subscription(connection).sub(sd_for(options=ALTER | DURABLE), "Q2")
    publish(connection, b"x")
    assert altered.get() == b"x"
    assert queue_manager.curdepth("Q1") == 0


def test_an_open_one_is_altered_by_who_has_it_open(
    clock: VirtualClock, connection: pymqi.QueueManager, fails: Fails
) -> None:
    subscription = pymqi.Subscription(connection, sd_for(SubExpiry=10))
    queue = subscription.get_sub_queue()
    subscription.sub(sd_for(options=ALTER | DURABLE | MANAGED, SubExpiry=20))
    assert subscription.get_sub_queue() is queue
    clock.advance(1_999)
    publish(connection, b"x")
    assert subscription.get() == b"x"
    clock.advance(1)
    publish(connection, b"y")
    assert fails(subscription.get).reason == CMQC.MQRC_NO_MSG_AVAILABLE


def test_alter_opens_the_queue_again_if_it_was_closed(connection: pymqi.QueueManager) -> None:
    subscription = pymqi.Subscription(connection, sd_for())
    twin = pymqi.Queue(connection)
    queue = subscription.get_sub_queue()
    assert queue is not None
    twin.set_handle(queue.get_handle())
    twin.close()
    subscription.sub(sd_for(options=ALTER | DURABLE | MANAGED))
    publish(connection, b"x")
    assert subscription.get() == b"x"
    assert subscription.get_sub_queue() is not queue


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"topic": "b"}, CMQC.MQRC_TOPIC_NOT_ALTERABLE),
        ({"topic": "a/#"}, CMQC.MQRC_TOPIC_NOT_ALTERABLE),
        ({"options": ALTER | MANAGED}, CMQC.MQRC_DURABILITY_NOT_ALTERABLE),
        ({"options": ALTER | DURABLE}, CMQC.MQRC_DEST_CLASS_NOT_ALTERABLE),
        ({"selector": "x = 1"}, CMQC.MQRC_SELECTOR_NOT_ALTERABLE),
    ],
    ids=str,
)
def test_what_a_subscription_is_cannot_be_altered(
    queue_manager: QueueManager,
    connection: pymqi.QueueManager,
    fails: Fails,
    change: dict[str, Any],
    reason: int,
) -> None:
    pymqi.Subscription(connection, sd_for()).close(close_sub_queue=True)
    selector = change.pop("selector", None)
    sd = sd_for(**{"options": ALTER | DURABLE | MANAGED, "SubExpiry": 5, **change})
    if selector is not None:
        sd.set_vs("SelectionString", selector)
    assert fails(pymqi.Subscription, connection, sd).reason == reason
    [row] = queue_manager.mqsc("DISPLAY SUB('S') EXPIRY").rows
    assert row["EXPIRY"] == "UNLIMITED"
    resumed(connection).close()


def test_an_alter_that_fails_changes_nothing_and_leaves_nothing_open(
    queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    pymqi.Subscription(connection).sub(sd_for(options=CREATE | DURABLE), "Q1").close()
    holder = pymqi.Queue(connection, "Q1", CMQC.MQOO_INPUT_EXCLUSIVE)
    before = queue_manager.mqsc("DISPLAY SUB('S')").rows
    subscription, sd = pymqi.Subscription(connection), sd_for(options=ALTER | DURABLE, SubExpiry=5)
    assert fails(subscription.sub, sd).reason == CMQC.MQRC_INVALID_DESTINATION
    output = pymqi.Queue(connection, "Q1", CMQC.MQOO_OUTPUT)
    assert fails(subscription.sub, sd, output).reason == CMQC.MQRC_HOBJ_ERROR
    assert queue_manager.mqsc("DISPLAY SUB('S')").rows == before
    holder.close()
    wrong = sd_for(options=ALTER | DURABLE, topic="b")
    assert fails(subscription.sub, wrong).reason == CMQC.MQRC_TOPIC_NOT_ALTERABLE
    assert queue_manager.engine.registry.queue("Q1").input_count == 0
    subscription.sub(sd).close(close_sub_queue=True)
    assert queue_manager.engine.registry.queue("Q1").input_count == 0


def test_an_alter_that_the_disk_refuses_leaves_nothing_open(tmp_path: Path, fails: Fails) -> None:
    with QueueManager("QM1", tmp_path / "QM1") as qm:
        connection = pymqi.connect("QM1")
        pymqi.Subscription(connection, sd_for()).close(close_sub_queue=True)
        [name] = managed_queues(qm)
        sd = sd_for(options=ALTER | DURABLE | MANAGED)
        sd.set_vs("SubUserData", "x" * 10_000)
        with full_disk(qm):
            error = fails(pymqi.Subscription, connection, sd)
        assert error.reason == CMQC.MQRC_STORAGE_MEDIUM_FULL
        assert qm.engine.registry.queue(name).input_count == 0
        [row] = qm.mqsc("DISPLAY SUB('S') USERDATA").rows
        assert row["USERDATA"] == ""
        pymqi.Subscription(connection, sd).close(close_sub_queue=True)
        connection.disconnect()


def test_SubExpiry_ends_the_subscription_and_not_what_has_come(
    clock: VirtualClock, queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    pymqi.Subscription(connection).sub(sd_for(options=CREATE | DURABLE, SubExpiry=10), "Q1").close()
    clock.advance(999)
    publish(connection, b"in time")
    clock.advance(1)
    publish(connection, b"too late")
    assert fails(resumed, connection).reason == CMQC.MQRC_NO_SUBSCRIPTION
    assert pymqi.Queue(connection, "Q1").get() == b"in time"
    assert queue_manager.curdepth("Q1") == 0


def test_a_selector_picks_publications_and_messages_of_a_queue(
    connection: pymqi.QueueManager, fails: Fails
) -> None:
    sd = sd_for()
    sd.set_vs("SelectionString", "JMSPriority > 4")
    subscription = pymqi.Subscription(connection, sd)
    od = pymqi.OD(Version=CMQC.MQOD_VERSION_4, ObjectName="Q1")
    od.set_vs("SelectionString", "JMSPriority > 4")
    queue = pymqi.Queue(connection, od, CMQC.MQOO_INPUT_SHARED)
    for priority in (4, 5):
        publish(connection, b"%d" % priority, Priority=priority)
        connection.put1("Q1", b"%d" % priority, pymqi.MD(Priority=priority))
    for getter in (subscription, queue):
        assert getter.get() == b"5"
        assert fails(getter.get).reason == CMQC.MQRC_NO_MSG_AVAILABLE
    assert od.ResolvedType == CMQC.MQOT_Q


def test_a_selector_where_nothing_is_selected_is_2516(
    queue_manager: QueueManager, connection: pymqi.QueueManager, fails: Fails
) -> None:
    queues = pymqi.OD(Version=CMQC.MQOD_VERSION_4, ObjectName="Q1")
    topics = pymqi.OD(Version=CMQC.MQOD_VERSION_4, ObjectType=CMQC.MQOT_TOPIC)
    topics.set_vs("ObjectString", "a")
    for od in (queues, topics):
        od.set_vs("SelectionString", "x = 1")
        error = fails(pymqi.Queue, connection, od, CMQC.MQOO_OUTPUT)
        assert error.reason == CMQC.MQRC_SELECTOR_INVALID_FOR_TYPE
        assert fails(connection.put1, od, b"x").reason == CMQC.MQRC_SELECTOR_INVALID_FOR_TYPE
    assert queue_manager.curdepth("Q1") == 0


def test_a_version_of_the_descriptor_before_selectors_has_none(
    connection: pymqi.QueueManager,
) -> None:
    od = pymqi.OD(Version=CMQC.MQOD_VERSION_3, ObjectName="Q1")
    od.set_vs("SelectionString", "a =")
    connection.put1("Q1", b"x")
    assert pymqi.Queue(connection, od, CMQC.MQOO_INPUT_SHARED).get() == b"x"


def retained(connection: pymqi.QueueManager, body: bytes, topic: str = "a") -> None:
    """Publish and retain."""
    pmo = pymqi.PMO(Options=CMQC.MQPMO_RETAIN)
    pymqi.Topic(connection, topic_string=topic).pub(body, pymqi.MD(), pmo)


def test_new_publications_only_leaves_out_what_is_retained(
    connection: pymqi.QueueManager,
) -> None:
    retained(connection, b"old")
    plain = pymqi.Subscription(connection, sd_for("1"))
    new = pymqi.Subscription(connection, sd_for("2", NEW | CMQC.MQSO_NEW_PUBLICATIONS_ONLY))
    publish(connection, b"new")
    assert (plain.get(), new.get()) == (b"old", b"new")


def test_publications_on_request_come_by_MQSUBRQ_alone(
    connection: pymqi.QueueManager, fails: Fails
) -> None:
    sd = sd_for(options=NEW | CMQC.MQSO_PUBLICATIONS_ON_REQUEST, topic="a/+")
    subscription = pymqi.Subscription(connection, sd)
    warns = pymqi.PMO(Options=CMQC.MQPMO_WARN_IF_NO_SUBS_MATCHED)
    topic = pymqi.Topic(connection, topic_string="a/1")
    assert fails(topic.pub, b"x", pymqi.MD(), warns).reason == CMQC.MQRC_NO_SUBS_MATCHED
    assert fails(subscription.subrq).reason == CMQC.MQRC_NO_RETAINED_MSG
    retained(connection, b"1", "a/1")
    retained(connection, b"2", "a/2")
    assert fails(subscription.get).reason == CMQC.MQRC_NO_MSG_AVAILABLE
    sro = pymqi.SRO()
    subscription.subrq(CMQC.MQSR_ACTION_PUBLICATION, sro)
    assert sro.NumPubs == 2
    assert {subscription.get(), subscription.get()} == {b"1", b"2"}
    subscription.close(close_sub_queue=True)
    again = sd_for(options=RESUME, topic="")
    pymqi.Subscription(connection, again)
    assert again.Options & CMQC.MQSO_PUBLICATIONS_ON_REQUEST


def test_wrong_request_is_refused(connection: pymqi.QueueManager, fails: Fails) -> None:
    retained(connection, b"x")
    subscription = pymqi.Subscription(connection, sd_for())
    assert fails(subscription.subrq, 2).reason == CMQC.MQRC_ACTION_ERROR
    for fields, reason in (
        ({"StrucId": b"SD  "}, CMQC.MQRC_SRO_ERROR),
        ({"Version": 2}, CMQC.MQRC_SRO_ERROR),
        ({"Options": 1}, CMQC.MQRC_OPTIONS_ERROR),
    ):
        assert fails(subscription.subrq, 1, pymqi.SRO(**fields)).reason == reason
    subscription.close()
    with pytest.raises(pymqi.PYIFError, match="not open"):
        subscription.subrq()


@pytest.mark.parametrize(
    ("options", "is_kept"),
    [(CMQC.MQCO_NONE, True), (CMQC.MQCO_KEEP_SUB, True), (CMQC.MQCO_REMOVE_SUB, False)],
)
def test_a_durable_one_stays_unless_it_is_removed(
    queue_manager: QueueManager, connection: pymqi.QueueManager, options: int, is_kept: bool
) -> None:
    pymqi.Subscription(connection, sd_for()).close(options, close_sub_queue=True)
    assert [s.name for s in queue_manager.engine.registry.subscriptions.all()] == ["S"] * is_kept
    assert len(managed_queues(queue_manager)) == is_kept


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (CMQC.MQCO_KEEP_SUB, CMQC.MQRC_OPTION_NOT_VALID_FOR_TYPE),
        (CMQC.MQCO_KEEP_SUB | CMQC.MQCO_REMOVE_SUB, CMQC.MQRC_OPTIONS_ERROR),
        (CMQC.MQCO_DELETE, CMQC.MQRC_OPTIONS_ERROR),
    ],
)
def test_wrong_close_options_leave_it_open(
    connection: pymqi.QueueManager, fails: Fails, options: int, reason: int
) -> None:
    subscription = pymqi.Subscription(connection).sub(topic_string="a")
    assert fails(subscription.close, options).reason == reason
    publish(connection, b"x")
    assert subscription.get() == b"x"
    subscription.close()


def test_what_has_come_can_be_got_until_the_queue_is_closed_too(
    queue_manager: QueueManager, connection: pymqi.QueueManager
) -> None:
    subscription = pymqi.Subscription(connection).sub(topic_string="a")
    publish(connection, b"1")
    publish(connection, b"2")
    subscription.close()
    publish(connection, b"3")
    assert subscription.get() == b"1"
    assert len(managed_queues(queue_manager)) == 1
    queue = subscription.get_sub_queue()
    assert queue is not None
    queue.close()
    assert managed_queues(queue_manager) == []


def test_a_with_block_closes_subscription_and_queue(
    queue_manager: QueueManager, connection: pymqi.QueueManager
) -> None:
    with pymqi.Subscription(connection).sub(topic_string="a") as subscription:
        publish(connection, b"x")
        assert subscription.get() == b"x"
    assert managed_queues(queue_manager) == []
    with pymqi.Subscription(connection).sub(topic_string="a") as subscription:
        subscription.close(close_sub_queue=True)
    with (
        pytest.raises(KeyError, match="mine"),
        pymqi.Subscription(connection).sub(topic_string="a"),
    ):
        raise KeyError("mine")
    assert managed_queues(queue_manager) == []


def test_a_lost_subscription_is_closed(
    queue_manager: QueueManager, connection: pymqi.QueueManager
) -> None:
    subscription = pymqi.Subscription(connection).sub(topic_string="a")
    del subscription
    assert queue_manager.engine.registry.subscriptions.all() == []


def test_misuse_is_named(connection: pymqi.QueueManager) -> None:
    subscription = pymqi.Subscription(connection)
    for verb in (subscription.get, subscription.get_no_rfh2, subscription.close):
        with pytest.raises(pymqi.PYIFError, match="not open"):
            verb()
    with pytest.raises(TypeError, match="sub_desc is an SD, not OD"):
        subscription.sub(pymqi.OD())  # type: ignore[arg-type]  # the wrong type is the point
    assert subscription.get_sub_queue() is None


def test_a_topic_subscribes_to_itself(connection: pymqi.QueueManager) -> None:
    topic = pymqi.Topic(connection, topic_string="a/b")
    mine, other = topic.sub(), topic.sub(sd_for(topic="a/#"))
    topic.pub(b"x")
    publish(connection, b"y", "a")
    assert (mine.get(), other.get(), other.get()) == (b"x", b"x", b"y")


def test_names_and_options_stand_for_a_descriptor(
    queue_manager: QueueManager, connection: pymqi.QueueManager
) -> None:
    queue_manager.mqsc("DEFINE TOPIC(NEWS) TOPICSTR('news')")
    subscription = pymqi.Subscription(
        connection, sub_name="S", sub_opts=NEW, topic_name="NEWS", topic_string="a"
    )
    subscription.sub()
    publish(connection, b"x", "news/a")
    assert subscription.get() == b"x"
    [row] = queue_manager.mqsc("DISPLAY SUB('S') TOPICSTR DURABLE").rows
    assert (row["TOPICSTR"], row["DURABLE"]) == ("news/a", "YES")
