"""Authority at connect and open, rule C7, by the native verbs and by handles."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from mayfly import MQError, QueueManager
from mayfly.engine import PutRequest, Session
from mayfly.engine.api.administration import (
    GROUP,
    PRINCIPAL,
    QMGR,
    QMODEL,
    SELF,
    Entity,
    delete_authority,
    set_authority,
)
from mayfly.engine.api.administration import AuthorityKey as RecordKey
from mayfly.engine.api.administration import profile_pattern as pattern_of
from mayfly.engine.attributes import AUTHCHK_NONE
from mayfly.engine.authority.records import specificity
from mayfly.engine.authority.words import QUEUE
from mayfly.engine.objects import administration
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from tests.over import NewSession
from tests.spec.authority_scene import ALICE, connect, grant, revoke
from tests.spec.scene import BROWSE, INPUT, OUTPUT, V2, alias, alter_manager, body, local, refused
from tests.store.scene import statement

MODEL = "SYSTEM.DEFAULT.MODEL.QUEUE"
NOT_AUTHORIZED = rc.MQRC_NOT_AUTHORIZED
FULL, ROOMY = 1, 1_000_000


def pages(qm: QueueManager, limit: int) -> None:
    """Let the database grow to so many pages at the most."""
    qm.engine.store.commit([statement(f"PRAGMA max_page_count = {limit}")])


def put(session: Session) -> object:
    return session.put("Q1", b"x")


def browse(session: Session) -> object:
    return next(session.browse("Q1"), None)


VERBS: list[tuple[str, Callable[[Session], object]]] = [
    ("PUT", put),
    ("GET", lambda session: session.get("Q1")),
    ("BROWSE", browse),
    ("PUT", lambda session: session.open("Q1", OUTPUT)),
    ("GET", lambda session: session.open("Q1", INPUT)),
    ("GET", lambda session: session.open("Q1", c.MQOO_INPUT_AS_Q_DEF)),
    ("GET", lambda session: session.open("Q1", c.MQOO_INPUT_EXCLUSIVE)),
    ("BROWSE", lambda session: session.open("Q1", BROWSE)),
    ("INQ", lambda session: session.open("Q1", c.MQOO_INQUIRE)),
    ("SET", lambda session: session.open("Q1", c.MQOO_SET)),
]
OF_QUEUES = "BROWSE GET INQ PASSALL PASSID PUT SET SETALL SETID CHG CLR CRT DLT DSP"


@pytest.mark.parametrize(("word", "verb"), VERBS)
def test_C7_each_verb_needs_its_own_authority(
    queue_manager: QueueManager,
    word: str,
    verb: Callable[[Session], object],
    new_session: NewSession,
) -> None:
    """All others together do not help; alone it is enough."""
    local(queue_manager)
    with new_session(queue_manager) as opener, connect(queue_manager) as session:
        opener.put("Q1", b"there")
        grant(queue_manager, " ".join(set(OF_QUEUES.split()) - {word}), "Q1")
        with pytest.raises(MQError) as caught:
            verb(session)
        assert caught.value.reason == NOT_AUTHORIZED
        assert caught.value.detail == f"user 'alice' lacks {word} on QUEUE Q1"
        assert queue_manager.curdepth("Q1") == 1
        revoke(queue_manager, "ALL", "Q1")
        grant(queue_manager, word, "Q1")
        verb(session)


def test_C7_connect(queue_manager: QueueManager, new_session: NewSession) -> None:
    """From the first record of who may connect nobody else may; the opener needs nothing."""
    grant(queue_manager, "ALL", "**")
    new_session(queue_manager, ALICE).close()
    grant(queue_manager, "CONNECT", SELF, to="bob", kind=QMGR)
    with refused(NOT_AUTHORIZED):
        new_session(queue_manager, ALICE)
    local(queue_manager)
    with new_session(queue_manager) as opener:
        opener.put("Q1", b"x")
    with connect(queue_manager) as session:
        assert body(session.get("Q1")) == b"x"


def test_C7_the_user_who_opened_it_may_do_everything(new_session: NewSession) -> None:
    with QueueManager("QM1", user="operator-with-a-long-name") as qm:
        local(qm)
        grant(qm, "NONE", "Q1")
        with new_session(qm, "operator-with-a-long-name") as session:
            put(session)
        with new_session(qm, "operators") as session, refused(NOT_AUTHORIZED):
            put(session)


@pytest.mark.in_process
def test_C7_nothing_is_checked_before_the_first_record(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    """A user is taken at its word until somebody says who may do what; then at the next verb."""
    local(queue_manager)
    session = new_session(queue_manager, ALICE)
    put(session)
    assert queue_manager.mqsc("DISPLAY QMGR AUTHCHK").rows[0]["AUTHCHK"] == "NONE"
    grant(queue_manager, "PUT", "OTHER", to="bob")
    assert queue_manager.mqsc("DISPLAY QMGR AUTHCHK").rows[0]["AUTHCHK"] == "SEND"
    with refused(NOT_AUTHORIZED):
        put(session)
    alter_manager(queue_manager, AUTHCHK=AUTHCHK_NONE)
    put(session)
    grant(queue_manager, "GET", "OTHER", to="bob")
    # It stays off when somebody has turned it off, and on when the last record is gone.
    put(session)
    alter_manager(queue_manager, AUTHCHK=1)
    key = RecordKey(QUEUE, "OTHER", Entity(PRINCIPAL, "bob"))
    delete_authority(queue_manager.engine, key)
    with refused(NOT_AUTHORIZED):
        put(session)
    assert queue_manager.curdepth("Q1") == 3


def test_C7_the_name_opened_counts_not_what_it_leads_to(queue_manager: QueueManager) -> None:
    local(queue_manager)
    alias(queue_manager, "A1", "Q1")
    with connect(queue_manager) as session:
        grant(queue_manager, "PUT GET", "A1")
        session.put("A1", b"x")
        with refused(NOT_AUTHORIZED):
            session.put("Q1", b"x")
        with refused(NOT_AUTHORIZED):
            session.open("Q1", OUTPUT)
        assert body(session.get("A1")) == b"x"


def test_C7_a_name_that_is_not_there_is_unknown_first(queue_manager: QueueManager) -> None:
    with connect(queue_manager) as session:
        with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
            session.put("NOWHERE", b"x")
        with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
            session.open("NOWHERE", INPUT)


def test_C7_an_open_handle_goes_on_a_native_verb_does_not(queue_manager: QueueManager) -> None:
    """MQI asks at the open only; the native verbs open and close each time."""
    local(queue_manager)
    with connect(queue_manager) as session:
        grant(queue_manager, "PUT", "Q1")
        handle = session.open("Q1", OUTPUT)
        put(session)
        revoke(queue_manager, "PUT", "Q1")
        handle.put(b"x", PutRequest(V2))
        with refused(NOT_AUTHORIZED):
            put(session)
    assert queue_manager.curdepth("Q1") == 2


def test_C7_authorities_of_user_groups_and_everybody_add_up(queue_manager: QueueManager) -> None:
    local(queue_manager)
    with connect(queue_manager, ALICE, "ops", "dev") as session:
        grant(queue_manager, "PUT", "Q1", group="dev")
        grant(queue_manager, "GET", "**", group="nobody")
        with refused(NOT_AUTHORIZED):
            browse(session)
        grant(queue_manager, "BROWSE", "Q?", group="ops")
        put(session)
        assert browse(session) is not None
        assert body(session.get("Q1")) == b"x"
    with connect(queue_manager, ALICE, "dev") as session:
        put(session)
        with refused(NOT_AUTHORIZED):
            browse(session)


def test_C7_the_most_specific_profile_of_each_is_the_one_that_counts(
    queue_manager: QueueManager,
) -> None:
    """What a more generic profile gives the same user is not added."""
    local(queue_manager, "AB.CD")
    with connect(queue_manager) as session:
        grant(queue_manager, "PUT", "AB.*")
        session.put("AB.CD", b"x")
        grant(queue_manager, "GET", "AB.C*")
        with refused(NOT_AUTHORIZED):
            session.put("AB.CD", b"x")
        assert body(session.get("AB.CD")) == b"x"
        grant(queue_manager, "NONE", "AB.CD")
        with refused(NOT_AUTHORIZED):
            session.get("AB.CD")
        delete_authority(queue_manager.engine, RecordKey(QUEUE, "AB.CD", Entity(PRINCIPAL, ALICE)))
        assert session.get("AB.CD") is None


@pytest.mark.parametrize(
    ("profile", "names", "others"),
    [
        ("A.B", ["A.B"], ["A.BC", "A", "B", "A.B.C", "AxB"]),
        ("AB.?D", ["AB.CD", "AB.ED"], ["AB.D", "AB.CCD", "AB..D"]),
        ("A.*.C", ["A.B.C", "A.BB.C"], ["A.C", "A.B.B.C"]),
        ("A.D*.C", ["A.D.C", "A.DE.C"], ["A.C", "A.E.C", "A.D.E.C"]),
        ("*", ["A", "ABC"], ["A.B"]),
        ("A*", ["A", "AB"], ["A.B", "BA"]),
        ("**", ["A", "A.B.C"], []),
        ("A.**", ["A", "A.B", "A.B.C"], ["AB", "B.A"]),
        ("**.C", ["C", "A.C", "A.B.C"], ["AC", "C.A"]),
        ("A.**.C", ["A.C", "A.B.C", "A.B.B.C"], ["A", "A.B", "AB.C"]),
        ("A*B?C*D.E", ["AB1CD.E", "AxBB2CxCD.E"], ["ABCD.E", "AB1CD", "AB1CDx.E", "A.B1CD.E"]),
        # Each star more made a search that tries all places many times as long.
        ("*A" * 16 + "*B", ["A" * 47 + "B"], ["A" * 48, "A" * 15 + "B"]),
    ],
)
def test_what_a_profile_stands_for(profile: str, names: list[str], others: list[str]) -> None:
    pattern = pattern_of(profile)
    assert [n for n in names + others if pattern.fullmatch(n)] == names


def test_profiles_are_compared_from_the_left() -> None:
    """A character, then ?, then *, then **."""
    ordered = ["AB.CD", "AB.C?", "AB.C*", "AB.?D", "AB.?*", "AB.*D", "AB.*", "AB.**", "A*.CD", "**"]
    assert sorted({*ordered}, key=specificity) == ordered


CONTEXTS = [("SETID", c.MQOO_SET_IDENTITY_CONTEXT), ("SETALL", c.MQOO_SET_ALL_CONTEXT)]


@pytest.mark.parametrize(("word", "option"), CONTEXTS)
def test_C7_setting_context_needs_it_on_queue_and_queue_manager(
    queue_manager: QueueManager, word: str, option: int
) -> None:
    local(queue_manager)
    with connect(queue_manager) as session:
        grant(queue_manager, f"PUT {word}", "Q1")
        with refused(NOT_AUTHORIZED):
            session.open("Q1", OUTPUT | option)
        grant(queue_manager, word, SELF, kind=QMGR)
        session.open("Q1", OUTPUT | option)
        revoke(queue_manager, word, "Q1")
        with refused(NOT_AUTHORIZED):
            session.open("Q1", OUTPUT | option)


def test_C7_an_alternate_user_needs_altusr_and_has_its_own_authority(
    queue_manager: QueueManager,
    new_session: NewSession,
) -> None:
    local(queue_manager)
    connect(queue_manager, "bob", "writers").close()
    options = OUTPUT | c.MQOO_ALTERNATE_USER_AUTHORITY
    with connect(queue_manager) as session:
        grant(queue_manager, "PUT", "Q1")
        with refused(NOT_AUTHORIZED):
            session.open("Q1", options, alternate_user="bob")
        grant(queue_manager, "ALTUSR", SELF, kind=QMGR)
        with refused(NOT_AUTHORIZED):
            session.open("Q1", options, alternate_user="bob")
        # Of the groups with which bob has connected last.
        grant(queue_manager, "PUT", "Q1", group="writers")
        session.open("Q1", options, alternate_user="bob").put(b"x", PutRequest(V2))
        # Of nobody in particular, and never that of the opener.
        with refused(NOT_AUTHORIZED):
            session.open("Q1", options)
    with new_session(queue_manager) as opener, refused(NOT_AUTHORIZED):
        opener.open("Q1", options, alternate_user="eve")
    assert queue_manager.curdepth("Q1") == 1


def test_C9_who_makes_a_dynamic_queue_may_do_everything_with_it(
    queue_manager: QueueManager,
) -> None:
    """The model needs DSP and what it is opened for; others need authority on the new name."""
    with connect(queue_manager) as session, connect(queue_manager, "bob") as other:
        grant(queue_manager, "GET", MODEL)
        with refused(NOT_AUTHORIZED):
            session.open(MODEL, INPUT, dynamic_name="REPLY.*")
        grant(queue_manager, "DSP", MODEL)
        handle = session.open(MODEL, INPUT, dynamic_name="REPLY.*")
        name = handle.queue_name
        session.put(name, b"x")
        with refused(NOT_AUTHORIZED):
            other.put(name, b"x")
        grant(queue_manager, "PUT", "REPLY.*", to="bob")
        other.put(name, b"y")
        assert [m.body for m in session.browse(name)] == [b"x", b"y"]


def test_C9_a_permanent_dynamic_queue_stays_its_makers(tmp_path: Path) -> None:
    """Also when it was altered, and after a restart; another one needs DLT to delete it."""
    with QueueManager("QM1", tmp_path) as qm:
        administration.define(qm.engine, QMODEL, "PERM", {"DEFTYPE": c.MQQDT_PERMANENT_DYNAMIC})
        grant(qm, "DSP INQ", "PERM")
        connect(qm).open("PERM", c.MQOO_INQUIRE, dynamic_name="MINE")
        qm.mqsc("ALTER QLOCAL(MINE) MAXDEPTH(1)")
    with QueueManager("QM1", tmp_path) as qm:
        with connect(qm) as session, connect(qm, "bob") as other:
            session.put("MINE", b"x")
            grant(qm, "INQ", "MINE", to="bob")
            handle = other.open("MINE", c.MQOO_INQUIRE)
            with refused(NOT_AUTHORIZED):
                handle.close(c.MQCO_DELETE_PURGE)
            assert handle.is_open
            session.open("MINE", c.MQOO_INQUIRE).close(c.MQCO_DELETE_PURGE)
        with refused(rc.MQRC_UNKNOWN_OBJECT_NAME):
            qm.curdepth("MINE")


def test_records_survive_a_restart(tmp_path: Path, new_session: NewSession) -> None:
    with QueueManager("QM1", tmp_path) as qm:
        local(qm)
        grant(qm, "PUT", "Q*")
        grant(qm, "CONNECT", SELF, group="ops", kind=QMGR)
        before = qm.mqsc("DISPLAY AUTHREC").rows
    with QueueManager("QM1", tmp_path) as qm:
        assert qm.mqsc("DISPLAY AUTHREC").rows == before
        with new_session(qm, ALICE, groups=["ops"]) as session:
            put(session)
            with refused(NOT_AUTHORIZED):
                session.get("Q1")
        with refused(NOT_AUTHORIZED):
            new_session(qm, ALICE)


@pytest.mark.in_process
def test_a_full_disk_leaves_all_records_as_they_were(
    tmp_path: Path, new_session: NewSession
) -> None:
    """Neither the first record nor the check it turns on is half there."""
    with QueueManager("QM1", tmp_path) as qm:
        pages(qm, FULL)
        many = [Entity(GROUP, f"{n:064}") for n in range(2_000)]
        with refused(rc.MQRC_STORAGE_MEDIUM_FULL):
            set_authority(qm.engine, QUEUE, "Q1", many, add=["PUT"])
        assert not qm.mqsc("DISPLAY AUTHREC").rows
        pages(qm, ROOMY)
        local(qm)
        with new_session(qm, "anybody") as session:
            put(session)
            grant(qm, "PUT", "Q1")
            with refused(NOT_AUTHORIZED):
                put(session)


def test_a_refusal_is_logged_and_counted(
    queue_manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    local(queue_manager)
    caplog.set_level(logging.WARNING, "mayfly.authority")
    with connect(queue_manager) as session, refused(NOT_AUTHORIZED):
        put(session)
    assert queue_manager.engine.registry.authority.refused_count == 1
    assert caplog.messages == ["QM1: not authorized: user 'alice' lacks PUT on QUEUE Q1"]


def test_twelve_characters_of_a_user_count(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    """As many as a message descriptor holds."""
    local(queue_manager)
    grant(queue_manager, "PUT", "Q1", to="anna-maria-l")
    grant(queue_manager, "CONNECT", SELF, to="anna-maria-l", kind=QMGR)
    with new_session(queue_manager, "anna-maria-luise") as session:
        put(session)
    with refused(rc.MQRC_OPTIONS_ERROR):
        grant(queue_manager, "PUT", "Q1", to="anna-maria-luise")


@pytest.mark.in_process
def test_groups_are_names_not_one_text(
    queue_manager: QueueManager, new_session: NewSession
) -> None:
    with pytest.raises(TypeError, match="'ops'"):
        new_session(queue_manager, ALICE, groups="ops")


def test_wrong_records_are_refused(queue_manager: QueueManager) -> None:
    alice = [Entity(PRINCIPAL, ALICE)]
    for kind, profile, words, reason in (
        (QUEUE, "Q1", ["PUB"], rc.MQRC_OPTIONS_ERROR),
        ("LETTERBOX", "Q1", ["PUT"], rc.MQRC_OBJECT_TYPE_ERROR),
        (QUEUE, "Q 1", ["PUT"], rc.MQRC_OBJECT_NAME_ERROR),
        (QUEUE, "**.A.**", ["PUT"], rc.MQRC_OBJECT_NAME_ERROR),
        (QUEUE, "A**", ["PUT"], rc.MQRC_OBJECT_NAME_ERROR),
        (QMGR, "QM2", ["CONNECT"], rc.MQRC_OBJECT_NAME_ERROR),
    ):
        with refused(reason):
            set_authority(queue_manager.engine, kind, profile, alice, add=words)
    with refused(rc.MQRC_OPTIONS_ERROR):
        set_authority(queue_manager.engine, QUEUE, "Q1", alice, add=["PUT"], remove=["ALLMQI"])
    assert not queue_manager.mqsc("DISPLAY AUTHREC").rows
