"""The topic tree: topic strings, wildcards, topic objects and the values that apply (X1, D26)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.engine.api.administration import alter_topic, define_topic, delete_topic
from mayfly.engine.pubsub.topics import TopicIndex
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.testing import VirtualClock
from mayfly.verbs.topic_strings import check_topic_string, full_topic_string, levels_of, matches
from tests.over import NewSession
from tests.spec.pubsub_scene import admin_sub, topic
from tests.spec.scene import START_MS, local, refused


@pytest.mark.parametrize(
    ("pattern", "string", "is_match"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/b/c", False),
        ("a/b", "a", False),
        ("a/b", "A/b", False),
        ("#", "a", True),
        ("#", "a/b/c", True),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/#", "ab", False),
        ("#/c", "c", True),
        ("#/c", "a/b/c", True),
        ("#/c", "a/c/b", False),
        ("a/#/d", "a/d", True),
        ("a/#/d", "a/b/c/d", True),
        ("a/#/d", "a/b/c", False),
        ("a/#/c/#", "a/b/c", True),
        ("a/#/c/#", "a/c/c/d", True),
        ("#/#", "a", True),
        ("+", "a", True),
        ("+", "a/b", False),
        ("a/+", "a", False),
        ("a/+", "a/", True),
        ("a/+/c", "a//c", True),
        ("+/+", "a/b", True),
        ("+/+", "/b", True),
        ("+/#", "a", True),
        ("a+/b", "ax/b", False),
        ("a+/b", "a+/b", True),
        ("a#", "a/b", False),
        ("a#", "a#", True),
        ("/a", "a", False),
        ("a/", "a", False),
    ],
)
def test_wildcards_stand_for_whole_levels(pattern: str, string: str, is_match: bool) -> None:
    assert matches(levels_of(pattern), levels_of(string)) == is_match


_LEVEL = st.sampled_from(["a", "b", "", "+", "#"])


@given(st.lists(_LEVEL, max_size=5), st.lists(st.sampled_from(["a", "b", ""]), max_size=5))
def test_wildcards_mean_what_the_obvious_recursion_says(
    pattern: list[str], levels: list[str]
) -> None:
    def is_match(left: list[str], right: list[str]) -> bool:
        if not left:
            return not right
        if left[0] == "#":
            return any(is_match(left[1:], right[n:]) for n in range(len(right) + 1))
        return bool(right) and left[0] in ("+", right[0]) and is_match(left[1:], right[1:])

    assert matches(pattern, levels) == is_match(pattern, levels)


@given(
    st.lists(st.lists(_LEVEL, min_size=1, max_size=4), max_size=12),
    st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=5),
    st.data(),
)
def test_the_index_finds_those_that_match(
    patterns: list[list[str]], levels: list[str], data: st.DataObject
) -> None:
    index = TopicIndex[int]()
    for number, pattern in enumerate(patterns):
        index.add(pattern, b"%d" % number, number)
    left = set(range(len(patterns)))
    while True:
        wanted = {n for n in left if matches(patterns[n], levels)}
        assert set(index.matching(levels).values()) == wanted
        if not left:
            break
        gone = data.draw(st.sampled_from(sorted(left)))
        index.remove(patterns[gone], b"%d" % gone)
        left.discard(gone)
    assert index._root.below == {}


@pytest.mark.parametrize("string", ["", "x" * 10_241, "é" * 5_121, "a\0b", "a/\ud800"])
def test_2425_what_is_no_topic_string(string: str) -> None:
    for wildcards in (False, True):
        with refused(rc.MQRC_TOPIC_STRING_ERROR):
            check_topic_string(string, wildcards=wildcards)


@pytest.mark.in_process
def test_2425_a_publication_names_no_wildcard_level(session: Session) -> None:
    for string in ("#", "+", "a/#", "+/b", "a/+/b"):
        with refused(rc.MQRC_TOPIC_STRING_ERROR):
            session.publish(string, b"x")
        check_topic_string(string, wildcards=True)
    for string in ("a#", "c++", "a/b+c", "x" * 10_240, "/", "a//b"):
        assert session.publish(string, b"x").matched_count == 0


@pytest.mark.parametrize(
    ("first", "second", "full"),
    [
        ("a", "b", "a/b"),
        ("a/", "b", "a/b"),
        ("a", "/b", "a/b"),
        ("a", "", "a"),
        ("", "b", "b"),
        ("", "/b", "/b"),
    ],
)
def test_a_topic_object_and_a_string_behind_it_are_one_topic_string(
    first: str, second: str, full: str
) -> None:
    assert full_topic_string(first, second) == full


@pytest.mark.in_process
def test_publish_and_subscribe_by_topic_object(
    queue_manager: QueueManager, session: Session
) -> None:
    topic(queue_manager, "NEWS", "all/news")
    below = session.subscribe("sport", topic_object="NEWS")
    assert below.topic == "all/news/sport"
    session.publish("sport", b"1", topic_object="NEWS")
    session.publish("all/news/sport", b"2")
    got = [below.get(), below.get()]
    assert [(m.topic, m.body) for m in got if m] == [
        ("all/news/sport", b"1"),
        ("all/news/sport", b"2"),
    ]
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        session.publish("x", b"", topic_object="NONE")
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        session.subscribe("x", topic_object="NONE")


def test_the_root_has_the_documented_values(queue_manager: QueueManager) -> None:
    tree = queue_manager.engine.registry.topics
    assert [d.name for d in tree.definitions()] == ["SYSTEM.BASE.TOPIC", "SYSTEM.DEFAULT.TOPIC"]
    for string in ("", "a", "a/b"):
        values = tree.values(string)
        assert values.persistent_delivery == c.MQDLV_ALL_DUR
        assert values.volatile_delivery == c.MQDLV_ALL_AVAIL
        assert (values.default_priority, values.default_persistence) == (0, 0)
        assert (values.publish_inhibited, values.subscribe_inhibited) == (False, False)
        assert (values.allows_durable, values.cap_ms, values.uses_dead_letters) == (
            True,
            None,
            True,
        )


def test_each_value_comes_from_the_nearest_object_that_gives_one(
    queue_manager: QueueManager,
) -> None:
    tree = queue_manager.engine.registry.topics
    topic(queue_manager, "A", "a", DEFPRTY=3, CAPEXPRY=100)
    topic(queue_manager, "ABC", "a/b/c", DEFPRTY=5, PUB=1)
    assert tree.values("a/b").default_priority == 3
    assert tree.values("a/b/c/d").default_priority == 5
    assert tree.values("a/b/c/d").cap_ms == 10_000
    assert tree.values("a/b/c/d").publish_inhibited
    assert not tree.values("a/b").publish_inhibited
    assert tree.values("ab").default_priority == 0
    alter_topic(queue_manager.engine, "A", {"DEFPRTY": 4})
    assert tree.values("a/b").default_priority == 4
    alter_topic(queue_manager.engine, "ABC", {"CAPEXPRY": c.MQCEX_NOLIMIT})
    # An object's own value wins over its parent's, a higher one, too.
    assert tree.values("a/b/c").cap_ms is None
    delete_topic(queue_manager.engine, "ABC")
    assert tree.values("a/b/c/d").default_priority == 4
    assert not tree.values("a/b/c/d").publish_inhibited


def test_without_the_base_topic_its_documented_values_still_hold(
    queue_manager: QueueManager,
) -> None:
    alter_topic(queue_manager.engine, "SYSTEM.BASE.TOPIC", {"PMSGDLV": c.MQDLV_ALL})
    assert queue_manager.engine.registry.topics.values("a").persistent_delivery == c.MQDLV_ALL
    delete_topic(queue_manager.engine, "SYSTEM.BASE.TOPIC")
    assert queue_manager.engine.registry.topics.values("a").persistent_delivery == c.MQDLV_ALL_DUR


def test_topic_objects_are_refused_with_their_reason(queue_manager: QueueManager) -> None:
    topic(queue_manager, "A", "a")
    for name, string, reason in (
        ("A", "b", rc.MQRC_OBJECT_ALREADY_EXISTS),
        ("B", "a", rc.MQRC_OBJECT_ALREADY_EXISTS),
        ("B", "", rc.MQRC_TOPIC_STRING_ERROR),
        ("B", "a/#", rc.MQRC_TOPIC_STRING_ERROR),
        ("B C", "b", rc.MQRC_OBJECT_NAME_ERROR),
    ):
        with refused(reason):
            define_topic(queue_manager.engine, name, {"TOPICSTR": string})
    with refused(rc.MQRC_TOPIC_STRING_ERROR):
        alter_topic(queue_manager.engine, "A", {"TOPICSTR": "b"})
    with refused(rc.MQRC_TOPIC_STRING_ERROR):
        define_topic(queue_manager.engine, "A", {"TOPICSTR": "b"}, replace=True)
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        alter_topic(queue_manager.engine, "B", {})
    with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
        delete_topic(queue_manager.engine, "B")
    define_topic(queue_manager.engine, "A", {"DEFPRTY": 2}, replace=True)
    assert queue_manager.engine.registry.topics.values("a").default_priority == 2


@pytest.mark.in_process
def test_PUB_and_SUB_inhibit_a_topic_and_what_is_below(
    queue_manager: QueueManager, session: Session
) -> None:
    topic(queue_manager, "A", "a", PUB=1, SUB=1)
    local(queue_manager)
    for string in ("a", "a/b"):
        with refused(rc.MQRC_PUT_INHIBITED):
            session.publish(string, b"x")
        with refused(rc.MQRC_SUB_INHIBITED):
            session.subscribe(string)
        with refused(rc.MQRC_SUB_INHIBITED):
            admin_sub(queue_manager, "S", string, "Q1")
    assert session.publish("ab", b"x").matched_count == 0
    topic(queue_manager, "B", "b", DURSUB=c.MQSUB_DURABLE_INHIBITED)
    with refused(rc.MQRC_DURABILITY_NOT_ALLOWED):
        session.subscribe("b", name="D", durable=True)
    session.subscribe("b", name="D")


def test_topic_objects_survive_a_restart(tmp_path: Path, clock: VirtualClock) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm:
        topic(qm, "A", "a", DEFPRTY=3, CAPEXPRY=100)
        topic(qm, "B", "b")
        alter_topic(qm.engine, "A", {"DEFPRTY": 8})
        delete_topic(qm.engine, "B")
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm:
        tree = qm.engine.registry.topics
        assert tree.values("a/b").default_priority == 8
        assert tree.values("a/b").cap_ms == 10_000
        assert tree.find("B") is None
        assert qm.now_ms() == START_MS


def test_a_folder_from_before_topics_gets_their_root(
    tmp_path: Path, clock: VirtualClock, new_session: NewSession
) -> None:
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm:
        for name in ("SYSTEM.BASE.TOPIC", "SYSTEM.DEFAULT.TOPIC"):
            delete_topic(qm.engine, name)
        assert qm.mqsc("DELETE QMODEL(SYSTEM.NDURABLE.MODEL.QUEUE)").ok
    with QueueManager("QM1", tmp_path / "QM1", clock=clock) as qm, new_session(qm) as session:
        assert qm.engine.registry.topics.find("SYSTEM.BASE.TOPIC") is not None
        subscription = session.subscribe("a")
        session.publish("a", b"x")
        message = subscription.get()
        assert message is not None
        assert message.body == b"x"
