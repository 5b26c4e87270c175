"""MQSC about authority records: what it sets, shows and deletes, what it refuses."""

from __future__ import annotations

import pytest

import mayfly
from mayfly.engine.api.administration import OBJECT_TYPES
from mayfly.engine.authority.words import BITS

ALICE = "SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) PRINCIPAL('alice') "


def shown(qm: mayfly.QueueManager, command: str) -> list[tuple[object, ...]]:
    return [
        (row["PROFILE"], row["ENTITY"], row["AUTHLIST"])
        for row in qm.mqsc(f"DISPLAY {command}").rows
    ]


def authorities(qm: mayfly.QueueManager) -> object:
    [row] = qm.mqsc("DISPLAY AUTHREC PRINCIPAL('alice')").rows
    return row["AUTHLIST"]


def test_set_and_display(qm: mayfly.QueueManager) -> None:
    result = qm.mqsc(ALICE + "AUTHADD(PUT,GET)\nDISPLAY AUTHREC")
    assert result.codes == ["AMQ8862I", "AMQ8864I"]
    assert "AMQ8862I: IBM MQ authority record set." in result.text
    assert result.text.splitlines()[6:9] == [
        "   PROFILE(Q1)                             ENTITY(alice)",
        "   ENTTYPE(PRINCIPAL)                      OBJTYPE(QUEUE)",
        "   AUTHLIST(GET,PUT)",
    ]
    assert result.rows == [
        {
            "PROFILE": "Q1",
            "ENTITY": "alice",
            "ENTTYPE": "PRINCIPAL",
            "OBJTYPE": "QUEUE",
            "AUTHLIST": "GET,PUT",
        }
    ]


def test_authorities_are_added_and_removed(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc(ALICE + "AUTHADD(ALLMQI)").ok
    assert authorities(qm) == "BROWSE,GET,INQ,PASSALL,PASSID,PUT,SET,SETALL,SETID"
    assert qm.mqsc(ALICE + "AUTHRMV(PASSALL,PASSID,SETALL,SETID) AUTHADD(DSP)").ok
    assert authorities(qm) == "BROWSE,DSP,GET,INQ,PUT,SET"
    assert qm.mqsc(ALICE + "AUTHRMV(ALL)").ok
    assert authorities(qm) == "NONE"
    assert qm.mqsc(ALICE + "AUTHADD(ALLADM)").ok
    assert authorities(qm) == "CHG,CLR,CRT,DLT,DSP"


@pytest.mark.parametrize("kind", OBJECT_TYPES)
def test_ALL_is_what_the_type_of_object_knows(qm: mayfly.QueueManager, kind: str) -> None:
    """Each of them alone is accepted, and every other one refused."""
    target = f"SET AUTHREC PROFILE(SELF) OBJTYPE({kind}) GROUP('ops') "
    assert qm.mqsc(target + "AUTHADD(ALL)").ok
    [(_profile, _entity, every)] = shown(qm, f"AUTHREC OBJTYPE({kind})")
    allowed = str(every).split(",")
    for word in BITS:
        result = qm.mqsc(target + f"AUTHADD({word})")
        assert result.ok == (word in allowed), word
        assert result.ok or f"{word} is no authority of {kind}, which has" in result.text


def test_several_users_at_once(qm: mayfly.QueueManager) -> None:
    qm.mqsc("SET AUTHREC PROFILE(A.*) OBJTYPE(QUEUE) GROUP('ops','dev') AUTHADD(GET)")
    assert shown(qm, "AUTHREC") == [("A.*", "dev", "GET"), ("A.*", "ops", "GET")]


def test_users_are_taken_as_they_are_typed(qm: mayfly.QueueManager) -> None:
    """Unlike other names without quotes: those of queues are in upper case, of users seldom."""
    qm.mqsc("set authrec profile(q1) objtype(queue) principal(alice, 'Bob') authadd(put)")
    assert shown(qm, "AUTHREC") == [("Q1", "Bob", "PUT"), ("Q1", "alice", "PUT")]


def test_the_queue_manager_is_SELF(qm: mayfly.QueueManager) -> None:
    for given in ("", "PROFILE(SELF) ", "PROFILE('**') ", "PROFILE(QM1) "):
        command = f"SET AUTHREC {given}OBJTYPE(QMGR) PRINCIPAL('alice') AUTHADD(CONNECT)"
        assert qm.mqsc(command).ok
    assert shown(qm, "AUTHREC OBJTYPE(QMGR)") == [("SELF", "alice", "CONNECT")]
    assert "must be SELF" in qm.mqsc(command.replace("QM1", "QM2")).text


SCENE = """
SET AUTHREC PROFILE(ABCD) OBJTYPE(QUEUE) PRINCIPAL('alice') AUTHADD(PUT)
SET AUTHREC PROFILE(ABC*) OBJTYPE(QUEUE) GROUP('ops') AUTHADD(GET)
SET AUTHREC PROFILE(AB*) OBJTYPE(QUEUE) PRINCIPAL('bob') AUTHADD(INQ)
SET AUTHREC PROFILE(AB*) OBJTYPE(TOPIC) PRINCIPAL('alice') AUTHADD(PUB)
SET AUTHREC OBJTYPE(QMGR) GROUP('nobody') AUTHADD(CONNECT)
"""
PUT, GET, INQ = ("ABCD", "alice", "PUT"), ("ABC*", "ops", "GET"), ("AB*", "bob", "INQ")
PUB, CONNECT = ("AB*", "alice", "PUB"), ("SELF", "nobody", "CONNECT")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", [CONNECT, INQ, GET, PUT, PUB]),
        ("OBJTYPE(QUEUE)", [INQ, GET, PUT]),
        ("PROFILE(ABCD)", [INQ, GET, PUT, PUB]),
        ("PROFILE(ABCD) OBJTYPE(QUEUE)", [INQ, GET, PUT]),
        ("PROFILE(ABCD) MATCH(EXACT)", [PUT]),
        ("PROFILE(ABC*)", [GET]),
        ("PROFILE(ABD) MATCH(PROFILE)", [INQ, PUB]),
        ("PRINCIPAL('alice')", [PUT, PUB]),
        ("PRINCIPAL('alice') MATCH(MEMBERSHIP)", [CONNECT, GET, PUT, PUB]),
        ("GROUP('ops') OBJTYPE(QUEUE) PROFILE(ABCE)", [GET]),
        ("GROUP('alice')", []),
    ],
)
def test_display_by_profile_type_and_entity(
    qm: mayfly.QueueManager, asked: str, found: list[tuple[str, str, str]]
) -> None:
    """A name finds the generic profiles that stand for it, a generic one only itself."""
    assert qm.mqsc(SCENE).ok
    qm.session("alice", groups=["ops"])
    assert shown(qm, f"AUTHREC {asked}") == found


def test_display_what_comes_together(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc(SCENE).ok
    qm.session("alice", groups=["ops"])
    [row] = qm.mqsc("DISPLAY ENTAUTH PRINCIPAL('alice') OBJTYPE(QUEUE) OBJNAME(ABCD)").rows
    assert (row["OBJNAME"], row["AUTHLIST"]) == ("ABCD", "GET,PUT")
    result = qm.mqsc("DISPLAY ENTAUTH GROUP('ops') OBJTYPE(QMGR) ALL")
    assert result.codes == ["AMQ8866I"]
    assert result.rows[0]["AUTHLIST"] == "NONE"


def test_delete(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc(SCENE).ok
    delete = "DELETE AUTHREC PROFILE(ABCD) OBJTYPE(QUEUE) PRINCIPAL('alice')"
    assert qm.mqsc(delete).codes == ["AMQ8863I"]
    assert qm.mqsc(delete).codes == ["AMQ8147E"]
    assert shown(qm, "AUTHREC OBJTYPE(QUEUE)") == [INQ, GET]


def test_what_is_not_there_is_said_so(qm: mayfly.QueueManager) -> None:
    assert qm.mqsc("DISPLAY AUTHREC PROFILE(Q1)").codes == ["AMQ8147E"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (ALICE + "AUTHADD(PUTT)", "did you mean PUT?"),
        (ALICE, "AUTHADD or AUTHRMV is missing"),
        (ALICE + "AUTHADD()", "AUTHADD needs authorities in parentheses"),
        (ALICE + "AUTHADD(PUT) GROUP('ops')", "GROUP contradicts PRINCIPAL"),
        (ALICE + "AUTHADD(PUT) COLOUR(RED)", "COLOUR is not a keyword of SET AUTHREC"),
        ("SET AUTHREC PROFILE(Q1) OBJTYPE(QUEUE) AUTHADD(PUT)", "PRINCIPAL or GROUP is missing"),
        ("SET AUTHREC PROFILE(Q1) PRINCIPAL(A) AUTHADD(PUT)", "OBJTYPE is missing"),
        ("SET AUTHREC OBJTYPE(QUEUE) PRINCIPAL(A) AUTHADD(PUT)", "PROFILE is missing"),
        ("SET AUTHREC OBJTYPE(QUE) PROFILE(Q1) PRINCIPAL(A) AUTHADD(PUT)", "one of AUTHINFO"),
        (ALICE.replace("Q1", "A.***") + "AUTHADD(PUT)", "PROFILE: profile 'A.***'"),
        (ALICE.replace("'alice'", "'anna-maria-luise'") + "AUTHADD(PUT)", "1 to 12 characters"),
        (ALICE.replace("'alice'", "") + "AUTHADD(PUT)", "PRINCIPAL needs a name"),
        ("SET QUEUE(Q1)", "SET knows AUTHREC, CHLAUTH, POLICY, not QUEUE"),
        ("DISPLAY AUTHREC MATCH(SOME)", "PROFILE or MEMBERSHIP or EXACT"),
        ("DISPLAY ENTAUTH OBJTYPE(QMGR)", "one PRINCIPAL or one GROUP is needed"),
        ("DELETE AUTHREC OBJTYPE(QMGR) GROUP(A B)", "one PRINCIPAL or one GROUP is needed"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(
    qm: mayfly.QueueManager, command: str, said: str
) -> None:
    result = qm.mqsc(command)
    assert result.codes == ["AMQ8405E"]
    assert said in result.text
    assert not qm.mqsc("DISPLAY AUTHREC").rows


def test_what_is_added_cannot_be_removed_at_once(qm: mayfly.QueueManager) -> None:
    result = qm.mqsc(ALICE + "AUTHADD(ALL) AUTHRMV(PUT,GET)")
    assert not result.ok
    assert "GET,PUT is both added and removed" in result.text
    assert not qm.mqsc("DISPLAY AUTHREC").rows
