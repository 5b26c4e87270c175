"""Two users: what one has named, another cannot use, change or take away by the name alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mayfly import QueueManager
from mayfly.client.connection import ClientClaims, Connection, Schedule
from mayfly.client.connection import connect as connect_to
from mayfly.engine import Session
from mayfly.engine.api.administration import QMGR, SELF, TOPIC
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Settlement
from tests.over import NewSession
from tests.spec.authority_scene import ALICE, connect, grant
from tests.spec.pubsub_scene import topic
from tests.spec.scene import body, local, refused

BOB = "bob"
OTHER = rc.MQRC_NOT_AUTHORIZED
MODEL = "SYSTEM.DEFAULT.MODEL.QUEUE"


@pytest.fixture
def alice(queue_manager: QueueManager) -> Iterator[Session]:
    """A session of alice, who may use the topics ``sec`` and ``both``."""
    with connect(queue_manager) as session:
        topic(queue_manager, "SEC", "sec")
        topic(queue_manager, "BOTH", "both")
        grant(queue_manager, "SUB RESUME", "SEC", kind=TOPIC)
        grant(queue_manager, "SUB RESUME", "BOTH", kind=TOPIC)
        yield session


@pytest.fixture
def bob(queue_manager: QueueManager, alice: Session) -> Iterator[Session]:
    """A session of bob, who may use the topics ``own`` and ``both``."""
    with connect(queue_manager, BOB) as session:
        topic(queue_manager, "OWN", "own")
        grant(queue_manager, "SUB RESUME", "OWN", to=BOB, kind=TOPIC)
        grant(queue_manager, "SUB RESUME", "BOTH", to=BOB, kind=TOPIC)
        yield session


@pytest.fixture
def as_bob(queue_manager: QueueManager, bob: Session) -> Iterator[Connection]:
    """A connection of bob."""
    connection = connect_to("QM1", user=BOB)
    yield connection
    connection.close()


def joined(connection: Connection, name: str, topic: str, *, shared: bool = False) -> object:
    return connection.call(
        ask.JoinSubscription(topic, name=name, is_durable=True, is_shared=shared)
    )


def altered(connection: Connection, name: str) -> object:
    options = c.MQSO_ALTER | c.MQSO_DURABLE | c.MQSO_MANAGED | c.MQSO_ANY_USERID
    return connection.call(ask.Subscribe(options, name=name))


TAKING: dict[str, Callable[[Connection], object]] = {
    "join another topic": lambda bob: joined(bob, "ORDERS", "own"),
    "join the same topic": lambda bob: joined(bob, "ORDERS", "sec"),
    "share another topic": lambda bob: joined(bob, "SHARED", "own", shared=True),
    "share the same topic": lambda bob: joined(bob, "SHARED", "sec", shared=True),
    "resume": lambda bob: bob.call(ask.Subscribe(c.MQSO_RESUME | c.MQSO_DURABLE, name="ORDERS")),
    "alter": lambda bob: altered(bob, "ORDERS"),
    "remove": lambda bob: bob.call(ask.RemoveSubscription("ORDERS")),
    "remove the shared one": lambda bob: bob.call(ask.RemoveSubscription("SHARED")),
}


@pytest.mark.parametrize("way", TAKING)
def test_C7_2035_a_durable_subscription_is_not_another_users_who_knows_its_name(
    queue_manager: QueueManager,
    alice: Session,
    as_bob: Connection,
    way: str,
    new_session: NewSession,
) -> None:
    """Whoever may use neither its topic nor it leaves it as it is, with its messages."""
    alice.subscribe("sec", name="ORDERS", durable=True).close()
    alice.subscribe("sec", name="SHARED", durable=True, shared=True).close()
    with new_session(queue_manager) as opener:
        opener.publish("sec", b"secret")
    with refused(OTHER):
        TAKING[way](as_bob)
    for name in ("ORDERS", "SHARED"):
        found = alice.resume(name)
        assert found.topic == "sec"
        assert body(found.get()) == b"secret"
        found.close()


@pytest.mark.in_process
@pytest.mark.parametrize("replace", [False, True])
def test_C7_2434_a_subscription_fixed_to_a_user_is_nobody_elses(
    alice: Session, bob: Session, replace: bool
) -> None:
    """MQSO_FIXED_USERID: also of another user who may subscribe to its topic."""
    alice.subscribe("both", name="MINE", durable=True, fixed_user=True).close()
    ways: list[Callable[[], object]] = [
        lambda: bob.resume("MINE"),
        lambda: bob.unsubscribe("MINE"),
        lambda: bob.subscribe("both", name="MINE", durable=True, replace=True),
    ]
    for way in ways:
        with refused(rc.MQRC_IDENTITY_MISMATCH):
            way()
    alice.unsubscribe("MINE")


def test_C7_another_user_with_authority_on_the_topic_resumes_and_replaces(
    alice: Session, bob: Session, as_bob: Connection
) -> None:
    """MQSO_ANY_USERID, as JMS has it: authority on the topic decides."""
    alice.subscribe("both", name="COMMON", durable=True).close()
    bob.resume("COMMON").close()
    joined(as_bob, "COMMON", "own")
    with refused(OTHER):
        alice.resume("COMMON")


def test_C7_2035_who_may_only_resume_does_not_alter_or_remove(
    queue_manager: QueueManager, alice: Session
) -> None:
    alice.subscribe("sec", name="ORDERS", durable=True).close()
    grant(queue_manager, "CONNECT", SELF, to="carl", kind=QMGR)
    grant(queue_manager, "RESUME", "SEC", to="carl", kind=TOPIC)
    carl = connect_to("QM1", user="carl")
    try:
        with refused(OTHER):
            altered(carl, "ORDERS")
        found = carl.call(ask.Subscribe(c.MQSO_RESUME | c.MQSO_DURABLE, name="ORDERS"))
        carl.call(ask.CloseObject(found.handle))
        with refused(OTHER):
            carl.call(ask.CloseSubscription(found.number, remove=True))
        carl.call(ask.CloseSubscription(found.number))
    finally:
        carl.close()
    alice.unsubscribe("ORDERS")


def test_C7_2035_an_altered_subscription_sends_nothing_where_its_user_may_not_put(
    queue_manager: QueueManager, bob: Session, as_bob: Connection
) -> None:
    """As a new one, which needs PUT on the queue that it names."""
    for name in ("MINE", "THEIRS"):
        local(queue_manager, name)
        grant(queue_manager, "GET", name, to=BOB)
    grant(queue_manager, "PUT", "MINE", to=BOB)
    mine, theirs = (
        as_bob.call(ask.Open(name, c.MQOO_INPUT_SHARED)).handle for name in ("MINE", "THEIRS")
    )
    options = c.MQSO_CREATE | c.MQSO_DURABLE
    made = as_bob.call(ask.Subscribe(options, name="S", topic="own", queue=mine))
    as_bob.call(ask.CloseSubscription(made.number))
    with refused(OTHER):
        as_bob.call(ask.Subscribe(c.MQSO_ALTER | c.MQSO_DURABLE, name="S", queue=theirs))
    [row] = queue_manager.mqsc("DISPLAY SUB('S') DEST").rows
    assert row["DEST"] == "MINE"


@pytest.mark.parametrize("kind", ["TEMPDYN", "PERMDYN"])
def test_C7_2035_a_dynamic_queue_is_its_makers_alone(
    queue_manager: QueueManager, alice: Session, bob: Session, kind: str
) -> None:
    """Another user needs authority on its name, as on that of any queue."""
    queue_manager.mqsc(f"DEFINE QMODEL(M) DEFTYPE({kind}) SHARE DEFSOPT(SHARED)")
    grant(queue_manager, "DSP GET PUT INQ BROWSE", "M")
    handle = alice.open("M", c.MQOO_INPUT_SHARED, dynamic_name="REPLY.*")
    alice.put(handle.queue_name, b"answer", persistent=False)
    for options in (c.MQOO_INPUT_SHARED, c.MQOO_BROWSE, c.MQOO_OUTPUT, c.MQOO_INQUIRE):
        with refused(OTHER):
            bob.open(handle.queue_name, options)
    with refused(OTHER):
        bob.get(handle.queue_name)
    grant(queue_manager, "GET", "REPLY.*", to=BOB)
    asked = bob.open(handle.queue_name, c.MQOO_INPUT_SHARED)
    if kind == "PERMDYN":
        with refused(OTHER):
            asked.close(c.MQCO_DELETE_PURGE)
    assert body(alice.get(handle.queue_name)) == b"answer"


def test_C7_2035_a_managed_queue_is_the_subscribers(
    queue_manager: QueueManager, alice: Session, bob: Session, new_session: NewSession
) -> None:
    mine = alice.subscribe("both", name="COMMON", durable=True)
    with new_session(queue_manager) as opener:
        opener.publish("both", b"x")
    with refused(OTHER):
        bob.get(mine.queue)
    with refused(OTHER):
        bob.open(mine.queue, c.MQOO_BROWSE)
    with refused(OTHER):
        bob.subscribe("own", queue=mine.queue)
    assert body(mine.get()) == b"x"


CLAIMS: dict[str, Callable[[Connection], object]] = {
    "the instance": lambda bob: ClientClaims(bob.call).instance_id,
    "the standings": lambda bob: ClientClaims(bob.call).standings(),
    "an end": lambda bob: ClientClaims(bob.call).end_written("billing", 1),
    "a release": lambda bob: ClientClaims(bob.call).release("billing"),
}


@pytest.mark.parametrize("way", CLAIMS)
def test_C7_2035_claims_are_not_a_users_of_limited_authority(as_bob: Connection, way: str) -> None:
    with refused(OTHER):
        CLAIMS[way](as_bob)


def test_C7_2035_a_delayed_message_is_its_senders_whatever_another_knows_of_it(
    queue_manager: QueueManager, alice: Session, as_bob: Connection
) -> None:
    """Its MsgId gives no receipt of it, and a receipt that is over says nothing of its message."""
    local(queue_manager, "Q1")
    grant(queue_manager, "PUT", "Q1")
    msg_id = alice.put("Q1", b"later", delay_ms=60_000)
    schedule = Schedule(as_bob.call)
    ways: list[Callable[[], object]] = [
        lambda: schedule.show(msg_id),
        lambda: schedule.cancel(msg_id),
        lambda: schedule.release(msg_id),
        lambda: schedule.reschedule(msg_id, delay_ms=1),
        lambda: Schedule(as_bob.call, in_unit=True).cancel(msg_id),
    ]
    for way in ways:
        with refused(OTHER):
            way()
    assert alice.schedule.cancel(msg_id) == "cancelled"
    for way in ways[1:]:
        with refused(OTHER):
            way()


def test_a_delivery_is_settled_by_the_connection_that_holds_it_alone(
    queue_manager: QueueManager, alice: Session, as_bob: Connection
) -> None:
    """Its number names nothing on another one, nor its handle."""
    local(queue_manager)
    grant(queue_manager, "PUT GET", "Q1")
    as_alice = connect_to("QM1", user=ALICE)
    try:
        alice.put("Q1", b"held")
        handle = as_alice.call(ask.Open("Q1", c.MQOO_INPUT_SHARED)).handle
        [held] = as_alice.call(ask.TakeHeld(handle, c.MQGMO_NO_WAIT, 1, 1_000))
        with refused(rc.MQRC_HMSG_ERROR):
            as_bob.call(ask.Settle([held.number], Settlement.TAKEN))
        with refused(rc.MQRC_HOBJ_ERROR):
            as_bob.get(handle)
        as_alice.call(ask.Settle([held.number], Settlement.TAKEN))
    finally:
        as_alice.close()
    assert queue_manager.curdepth("Q1") == 0


#: Options that ask for no right by themselves.
NO_RIGHT = (
    c.MQOO_FAIL_IF_QUIESCING,
    c.MQOO_BIND_NOT_FIXED,
    c.MQOO_FAIL_IF_QUIESCING | c.MQOO_RESOLVE_LOCAL_Q,
)


@pytest.mark.parametrize("options", NO_RIGHT)
def test_C7_2035_an_open_that_does_nothing_needs_what_inquire_needs(
    queue_manager: QueueManager, bob: Session, options: int
) -> None:
    """It tells that a queue is there, and what an alias or a model makes of it."""
    local(queue_manager)
    assert queue_manager.mqsc("DEFINE QALIAS(A1) TARGET(Q1)").ok
    for name in ("Q1", "A1", MODEL):
        grant(queue_manager, "PUT GET DSP", name, to=BOB)
        for opened in (options, c.MQOO_INQUIRE):
            with refused(OTHER):
                bob.open(name, opened)
        grant(queue_manager, "INQ", name, to=BOB)
        bob.open(name, options).close()
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        bob.open("NONE", options)
