"""What forms are made from: kinds with attributes, the MQSC of a change, errors at their fields."""

from __future__ import annotations

from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.admin import DEFINABLE, object_type
from mayfly.admin.security.users import users_of
from mayfly.servers.http.resources.kinds import MEANINGS, NAMED_KINDS
from tests.servers.http.conftest import Web

QM1 = "/mayfly/v1/qmgr/QM1"
RECORD = f"{QM1}/authority-records/queue/Q1/principal/anna"


def attribute(web: Web, kind: str, keyword: str) -> Any:
    """Return an attribute as its kind has it; ``kind`` may be followed by ``?type=``."""
    answer = web.ask("GET", f"{QM1}/kinds/{kind}")
    assert answer.status == 200, answer.content
    [found] = (one for one in answer.content["attributes"] if one["keyword"] == keyword)
    return found


def test_every_kind_has_its_attributes_with_values_and_defaults(web: Web) -> None:
    kinds = web.ask("GET", f"{QM1}/kinds").content["kinds"]
    assert {one["kind"] for one in kinds} == {kind.lower() for kind in (*DEFINABLE, "QMGR")}
    for one in kinds:
        for word in one["types"] or [""]:
            found = web.ask("GET", f"{QM1}/kinds/{one['kind']}?type={word}").content["attributes"]
            keywords = {each["keyword"].upper() for each in found}
            assert keywords <= object_type(one["kind"].upper()).attributes.keys()
            if not word:
                assert len(keywords) == len(object_type(one["kind"].upper()).attributes)


def test_meanings_and_names_are_those_of_attributes_and_kinds() -> None:
    keywords = {word for kind in (*DEFINABLE, "QMGR") for word in object_type(kind).attributes}
    assert MEANINGS.keys() <= keywords
    assert NAMED_KINDS.keys() <= keywords
    assert {kind for kinds in NAMED_KINDS.values() for kind in kinds} <= {*DEFINABLE, "USER"}
    assert not [text for text in MEANINGS.values() if len(text) > 90 or text.endswith(".")]


def test_an_attribute_says_what_it_may_be_and_when_it_can_be_set(web: Web) -> None:
    assert attribute(web, "qlocal", "maxdepth") == {
        "keyword": "maxdepth",
        "default": 5_000,
        "words": [],
        "low": 0,
        "high": 999_999_999,
        "max_bytes": None,
        "unit": "",
        "is_list": False,
        "is_needed": False,
        "is_fixed": False,
        "is_secret": False,
        "has_effect": True,
        "meaning": "how many messages fit on the queue",
        "names": [],
    }
    assert attribute(web, "qalias", "target")["names"] == ["qlocal", "qalias", "qremote", "topic"]
    assert attribute(web, "qlocal", "trigger")["words"] == ["TRIGGER", "NOTRIGGER"]
    assert attribute(web, "qlocal", "capexpry")["words"] == ["NOLIMIT"]
    topic = attribute(web, "topic", "topicstr")
    assert (topic["is_needed"], topic["is_fixed"], topic["max_bytes"]) == (True, True, 10_240)
    assert attribute(web, "channel?type=sdr", "xmitq")["is_needed"]
    assert attribute(web, "authinfo?type=idpwldap", "ldappwd")["is_secret"]
    assert not attribute(web, "qlocal", "npmclass")["has_effect"]


def test_a_default_is_that_of_the_object_from_which_a_new_one_inherits(
    web: Web, queue_manager: QueueManager
) -> None:
    script = "DEFINE QLOCAL(SYSTEM.DEFAULT.LOCAL.QUEUE) MAXDEPTH(9) DEFPSIST(YES) REPLACE"
    assert queue_manager.mqsc(script).ok
    assert attribute(web, "qlocal", "maxdepth")["default"] == 9
    assert attribute(web, "qlocal", "defpsist")["default"] == "YES"


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("kinds/qlocl", 404, "kind 'qlocl' is none of qlocal"),
        ("kinds/channel", 400, "type '' is none of SDR, RCVR, SVRCONN"),
        ("kinds/qlocal?type=SDR", 400, "type 'SDR' is none of none"),
    ],
)
def test_an_unknown_kind_or_type_is_named(web: Web, path: str, status: int, said: str) -> None:
    answer = web.ask("GET", f"{QM1}/{path}")
    assert answer.said[0] == status
    assert answer.said[1].startswith(said)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("qlocal", {"maxdepth": 7, "put": "disabled", "descr": "it's a 'new' one", "trigger": 1}),
        ("qremote", {"rname": "q.low", "rqmname": "QM2"}),
        ("topic", {"topicstr": "price/fruit"}),
        ("sub", {"topicstr": "price/#", "dest": "Q1"}),
        ("channel", {"chltype": "SDR", "conname": "mq1.example(1414)", "xmitq": "Q2"}),
        ("clntconn", {"chltype": "CLNTCONN", "conname": "mq1.example"}),
        ("authinfo", {"authtype": "IDPWOS", "faildlay": 3}),
        ("namelist", {"names": "ONE,two"}),
    ],
)
def test_the_command_of_a_form_does_what_the_form_does(
    web: Web, queue_manager: QueueManager, kind: str, given: dict[str, object]
) -> None:
    """The object that the command defines is the one that the resource defines."""
    path = f"{QM1}/definitions/{kind}/NEW.1"

    def command(**body: object) -> str:
        answer = web.ask("POST", f"{path}/command", body)
        assert answer.status == 200, answer.content
        return str(answer.content["command"])

    defines, deletes = command(action="define", attributes=given), command(action="delete")
    made = web.ask("PUT", path, {"attributes": given})
    assert made.status == 201, made.content
    assert queue_manager.mqsc(deletes).ok
    assert web.ask("GET", path).status == 404
    assert queue_manager.mqsc(defines).ok, defines
    assert web.ask("GET", path).content["attributes"] == made.content["attributes"]
    alters = command(action="alter", attributes={"descr": "New"} if kind != "sub" else {})
    result = queue_manager.mqsc(alters)
    assert result.ok, result.text


def test_commands_of_queues_are_whole(web: Web) -> None:
    path = f"{QM1}/definitions/qlocal/Q1/command"
    asked = web.ask("POST", path, {"action": "delete", "purge": True})
    assert asked.content == {"command": "DELETE QLOCAL(Q1) PURGE"}
    assert web.ask("POST", path, {"action": "clear"}).content == {"command": "CLEAR QLOCAL(Q1)"}
    like = {"action": "define", "attributes": {"maxdepth": 5}, "like": "Q2"}
    assert web.ask("POST", path, like).content["command"].split() == [
        *("DEFINE", "QLOCAL(Q1)", "+", "MAXDEPTH(5)", "+", "LIKE(Q2)")
    ]
    assert web.ask("GET", f"{QM1}/definitions/qlocal/Q1").content["attributes"]["maxdepth"] == 5_000


def test_the_queue_manager_is_altered_by_its_command(web: Web, queue_manager: QueueManager) -> None:
    path, body = f"{QM1}/definitions/qmgr/QM1/command", {"descr": "x", "expryint": "OFF"}
    found = web.ask("POST", path, {"action": "alter", "attributes": body}).content["command"]
    assert found.split() == ["ALTER", "QMGR", "+", "DESCR('x')", "+", "EXPRYINT(OFF)"]
    assert queue_manager.mqsc(found).ok


def test_a_secret_is_in_no_command_and_in_no_error(web: Web) -> None:
    path = f"{QM1}/definitions/authinfo/LDAP/command"
    given = {"authtype": "IDPWLDAP", "ldappwd": "tiger"}
    shown = web.ask("POST", path, {"action": "define", "attributes": given}).content["command"]
    assert "LDAPPWD(********)" in shown
    assert "tiger" not in shown
    body = {"attributes": {"maxdepth": 1, "ldappwd": "tiger"}}
    wrong = web.ask("PUT", f"{QM1}/definitions/qlocal/Q9", body).content
    assert (wrong["attribute"], "value" in wrong) == ("ldappwd", False)


@pytest.mark.parametrize(
    ("kind", "given", "attribute", "value", "reason"),
    [
        ("qlocal", {"maxdepth": -1}, "maxdepth", -1, (4005, "MQRCCF_ATTR_VALUE_ERROR")),
        ("qlocal", {"put": "PERHAPS"}, "put", "PERHAPS", (4005, "MQRCCF_ATTR_VALUE_ERROR")),
        ("qlocal", {"depth": 1}, "depth", 1, (2067, "MQRC_SELECTOR_ERROR")),
        ("channel", {"chltype": "SDR", "conname": "a"}, "xmitq", "", (3228, "MQRCCF_PARM_MISSING")),
        ("topic", {"descr": "x"}, "topicstr", "", (3228, "MQRCCF_PARM_MISSING")),
    ],
)
def test_an_error_names_attribute_value_and_reason(
    web: Web,
    kind: str,
    given: dict[str, object],
    attribute: str,
    value: object,
    reason: tuple[int, str],
) -> None:
    answer = web.ask("PUT", f"{QM1}/definitions/{kind}/NEW", {"attributes": given})
    assert answer.status == 400
    found = answer.content
    assert (found["attribute"], found["value"]) == (attribute, value)
    assert (found["reason"], found["reasonName"]) == reason, found
    assert attribute.upper() in found["detail"]


@pytest.mark.parametrize(
    ("path", "action"), [("qalias/A", "clear"), ("qmgr/QM1", "delete"), ("qmgr/QM1", "define")]
)
def test_an_action_that_a_kind_does_not_have_is_refused(web: Web, path: str, action: str) -> None:
    answer = web.ask("POST", f"{QM1}/definitions/{path}/command", {"action": action})
    assert answer.said[:2] == (400, f"action {action!r} is not for {path.partition('/')[0]}")


def test_the_command_of_a_record_is_what_changes_in_it(
    web: Web, queue_manager: QueueManager
) -> None:
    users_of(queue_manager.engine).add("anna", "a password")

    def command(**body: object) -> str:
        return " ".join(web.ask("POST", f"{RECORD}/command", body).content["command"].split(" +\n"))

    head = "PROFILE(Q1)    OBJTYPE(QUEUE)    PRINCIPAL('anna')"
    given = ["GET", "PUT"]
    assert command(authorities=given) == f"SET AUTHREC    {head}    AUTHADD(GET,PUT)"
    assert web.ask("PUT", RECORD, {"authorities": given}).status == 201
    changed = command(authorities=["PUT", "INQ"])
    assert changed == f"SET AUTHREC    {head}    AUTHADD(PUT,INQ)    AUTHRMV(GET)"
    assert queue_manager.mqsc(changed).ok
    assert web.ask("GET", RECORD).content["authorities"] == ["INQ", "PUT"]
    deleted = command(deletes=True)
    assert deleted == f"DELETE AUTHREC    {head}"
    assert queue_manager.mqsc(deleted).ok
    assert web.ask("GET", RECORD).status == 404
    wrong = web.ask("POST", f"{RECORD}/command", {"authorities": ["FETCH"]}).content
    assert (wrong["status"], wrong["attribute"], wrong["value"]) == (400, "authorities", "FETCH")


def test_the_authorities_of_each_type_of_object_are_listed(web: Web) -> None:
    found = web.ask("GET", f"{QM1}/authorities").content["object_types"]
    assert {"queue", "qmgr", "topic"} <= found.keys()
    assert {"BROWSE", "PUT", "ALLMQI"} <= set(found["queue"])
    assert "BROWSE" not in found["qmgr"]
