"""Administration by IBM's REST API: commands in text and in JSON, and who may send them."""

from __future__ import annotations

from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.mqi import reasons as rc
from mayfly.mqi.command_constants import MQRCCF_COMMAND_FAILED
from mayfly.servers.status import ServingState
from tests.servers.http.conftest import ADMIN, APP, TOKEN, Answer, Site, Web
from tests.servers.http.rest_client import BASE, error_of

CSRF = {"ibm-mq-rest-csrf-token": ""}
DONE = {"completionCode": 0, "reasonCode": 0}


def mqsc(web: Web, asked: object, version: int = 3, manager: str = "QM1", **more: Any) -> Answer:
    """Send a command as an administrator."""
    path = f"{BASE}/v{version}/admin/action/qmgr/{manager}/mqsc"
    return web.ask("POST", path, asked, **{**CSRF, **more})


def as_text(web: Web, command: str, version: int = 3) -> dict[str, Any]:
    answer = mqsc(web, {"type": "runCommand", "parameters": {"command": command}}, version)
    assert (answer.status, answer.headers["content-type"]) == (
        200,
        "application/json;charset=utf-8",
    )
    found: dict[str, Any] = answer.content
    return found


def as_json(web: Web, command: str, **fields: object) -> dict[str, Any]:
    answer = mqsc(web, {"type": "runCommandJSON", "command": command, **fields})
    assert answer.status == 200
    found: dict[str, Any] = answer.content
    return found


def overall(found: dict[str, Any]) -> tuple[int, int]:
    return found["overallCompletionCode"], found["overallReasonCode"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_command_as_text_is_answered_by_lines(
    web: Web, queue_manager: QueueManager, version: int
) -> None:
    """The request of IBM's page about plain commands."""
    found = as_text(web, "DEFINE CHANNEL(NEWSVRCONN) CHLTYPE(SVRCONN)", version)
    assert found == {
        "commandResponse": [{**DONE, "text": ["AMQ8014I: IBM MQ channel created."]}],
        "overallCompletionCode": 0,
        "overallReasonCode": 0,
    }
    assert queue_manager.mqsc("DISPLAY CHANNEL(NEWSVRCONN)").rows[0]["CHLTYPE"] == "SVRCONN"


def test_a_command_that_fails_is_answered_with_its_reason(web: Web) -> None:
    found = as_text(web, "DISPLAY QLOCAL(NONE)")
    [item] = found["commandResponse"]
    assert (item["completionCode"], item["reasonCode"]) == (2, rc.MQRC_UNKNOWN_OBJECT_NAME)
    assert item["text"] == ["AMQ8147E: IBM MQ object NONE not found."]
    assert overall(found) == (2, MQRCCF_COMMAND_FAILED)
    found = as_text(web, "DEFINE QLOCAL(")
    [item] = found["commandResponse"]
    assert (item["completionCode"], item["reasonCode"]) == (2, MQRCCF_COMMAND_FAILED)
    assert item["text"][0].startswith("AMQ8405E: Syntax error")
    assert overall(found) == (2, MQRCCF_COMMAND_FAILED)


def test_a_command_as_json_is_answered_by_values(web: Web, queue_manager: QueueManager) -> None:
    """The request of IBM's page about commands in JSON, and one with texts and numbers."""
    found = as_json(
        web, "define", qualifier="channel", name="NEWSVRCONN", parameters={"chltype": "svrconn"}
    )
    assert found["commandResponse"] == [{**DONE, "message": ["AMQ8014I: IBM MQ channel created."]}]
    assert overall(found) == (0, 0)
    as_json(
        web,
        "define",
        qualifier="qlocal",
        name="lower.case",
        parameters={"descr": "it's (a) 'queue'", "capexpry": 600, "defpsist": "yes"},
    )
    with queue_manager.session() as session:
        session.put("lower.case", b"x")
    found = as_json(
        web,
        "display",
        qualifier="queue",
        name="lower*",
        responseParameters=["descr", "capexpry", "defpsist", "curdepth"],
    )
    assert found["commandResponse"] == [
        {
            **DONE,
            "parameters": {
                "queue": "lower.case",
                "type": "QLOCAL",
                "descr": "it's (a) 'queue'",
                "capexpry": 600,
                "defpsist": "YES",
                "curdepth": 1,
            },
        }
    ]


def test_switches_lists_and_conditions_in_json(web: Web, queue_manager: QueueManager) -> None:
    for replace, codes in (("no", (2, MQRCCF_COMMAND_FAILED)), ("yes", (0, 0)), (True, (0, 0))):
        given = {"replace": replace, "maxdepth": 7}
        assert overall(as_json(web, "define", qualifier="qlocal", name="Q1", parameters=given)) == (
            codes
        )
    found = as_json(
        web,
        "display",
        qualifier="qlocal",
        name="*",
        parameters={"where": "maxdepth eq 7"},
        responseParameters=["maxdepth"],
    )
    assert [item["parameters"]["queue"] for item in found["commandResponse"]] == ["Q1"]
    record = {"profile": "Q1", "objtype": "queue", "principal": "anna", "authadd": ["put", "get"]}
    assert overall(as_json(web, "set", qualifier="authrec", parameters=record)) == (0, 0)
    [row] = queue_manager.mqsc("DISPLAY AUTHREC PROFILE(Q1) OBJTYPE(QUEUE)").rows
    assert row["ENTITY"] == "anna"


def test_a_value_in_json_stays_a_value(web: Web, queue_manager: QueueManager) -> None:
    """A value with a quote and a parenthesis makes no second attribute."""
    evil = "x') MAXDEPTH(1) REPLACE DESCR('"
    found = as_json(web, "alter", qualifier="qlocal", name="Q1", parameters={"descr": evil})
    assert overall(found) == (0, 0)
    [row] = queue_manager.mqsc("DISPLAY QLOCAL(Q1) DESCR MAXDEPTH").rows
    assert (row["DESCR"], row["MAXDEPTH"]) == (evil, 5_000)


@pytest.mark.parametrize("field", ["name", "descr", "where"])
@pytest.mark.parametrize("line_end", ["\n", "\r", "\u2028"])
def test_a_value_in_json_makes_no_second_command(
    web: Web, queue_manager: QueueManager, field: str, line_end: str
) -> None:
    evil = f"x{line_end}DELETE QLOCAL(Q2){line_end}*"
    asked: dict[str, Any] = {"name": "Q1", "parameters": {}}
    if field == "name":
        asked["name"] = evil
    else:
        asked["parameters"] = {field: f"descr eq {evil}" if field == "where" else evil}
    command = {"type": "runCommandJSON", "command": "alter", "qualifier": "qlocal", **asked}
    assert error_of(mqsc(web, command))[:2] == (400, "MQWB0302E")
    assert queue_manager.mqsc("DISPLAY QLOCAL(Q2)").ok


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "type None is not runCommand or runCommandJSON"),
        ({"type": "runcommand"}, "type 'runcommand' is not runCommand or runCommandJSON"),
        ({"type": "runCommand"}, "parameters.command None is not a command as text"),
        (
            {"type": "runCommand", "parameters": {"command": " "}},
            "parameters.command ' ' is not a command as text",
        ),
        (
            {"type": "runCommand", "parameters": {"command": "* a comment"}},
            "command '* a comment' is not a command",
        ),
        ({"type": "runCommandJSON"}, "command None is not a word of MQSC"),
        (
            {"type": "runCommandJSON", "command": "display", "qualifier": "q(x)"},
            "qualifier 'q(x)' is not a word of MQSC",
        ),
        (
            {"type": "runCommandJSON", "command": "ping", "name": [1]},
            "name [1] is not a text or a whole number",
        ),
        (
            {"type": "runCommandJSON", "command": "alter", "parameters": {"a b": 1}},
            "parameters 'a b' is not a word of MQSC",
        ),
        (
            {"type": "runCommandJSON", "command": "alter", "parameters": {"descr": 1.5}},
            "parameters.descr 1.5 is not a text or a whole number",
        ),
        (
            {"type": "runCommandJSON", "command": "define", "parameters": {"replace": "maybe"}},
            "parameters.replace 'maybe' is not yes or no",
        ),
        (
            {"type": "runCommandJSON", "command": "define", "parameters": {"replace": ["yes"]}},
            "parameters.replace ['yes'] is not yes or no",
        ),
        (
            {"type": "runCommandJSON", "command": "display", "parameters": {"where": "x"}},
            "parameters.where 'x' is not ATTRIBUTE OPERATOR VALUE",
        ),
        (
            {"type": "runCommandJSON", "command": "display", "responseParameters": "all"},
            "responseParameters 'all' is not a list of words",
        ),
    ],
)
def test_a_body_that_makes_no_command_is_refused(web: Web, asked: object, said: str) -> None:
    status, number, _reason, text = error_of(mqsc(web, asked))
    assert (status, number, text) == (400, "MQWB0302E", said)


def test_errors_of_administration_do_not_speak_of_messages(web: Web) -> None:
    wrong = mqsc(web, {"type": "none"}).content["error"][0]
    assert wrong["explanation"] == "A part of the request has a value that is not valid."
    for method, path in (
        ("GET", "admin/nothing"),
        ("PATCH", "admin/qmgr"),
        ("GET", "admin/qmgr?x=1"),
    ):
        [told] = web.ask(method, f"{BASE}/v3/{path}").content["error"]
        assert "message" not in told["explanation"]
    assert "query parameter 'x' is not known: there are none here" in told["message"]


def test_commands_are_for_administrators(guarded: Web) -> None:
    asked = {"type": "runCommand", "parameters": {"command": "DELETE QLOCAL(DEV.QUEUE.1)"}}
    assert mqsc(guarded, asked, user=None).status == 401
    assert mqsc(guarded, asked, user=(ADMIN[0], "guessed")).status == 401
    assert mqsc(guarded, asked, user=APP).status == 401
    missing = guarded.ask("POST", f"{BASE}/v3/admin/action/qmgr/QM1/mqsc", asked)
    assert error_of(missing)[:2] == (403, "MQWB0100E")
    assert mqsc(guarded, asked, user=ADMIN).content["overallCompletionCode"] == 0


def test_the_token_of_the_operator_opens_administration(guarded: Web) -> None:
    asked = {"type": "runCommand", "parameters": {"command": "PING QMGR"}}
    answer = mqsc(guarded, asked, user=None, authorization=f"Bearer {TOKEN}")
    assert answer.content["overallCompletionCode"] == 0


def test_a_user_who_is_let_in_and_is_no_administrator_is_refused(web: Web) -> None:
    asked = {"type": "runCommand", "parameters": {"command": "PING QMGR"}}
    answer = mqsc(web, asked, user=("anna", "secret"))
    assert error_of(answer)[:3] == (403, "MQWB0103E", rc.MQRC_NOT_AUTHORIZED)


def test_a_queue_manager_that_is_not_served_is_not_found(web: Web) -> None:
    asked = {"type": "runCommand", "parameters": {"command": "PING QMGR"}}
    answer = mqsc(web, asked, manager="QM2")
    assert error_of(answer)[:3] == (404, "MQWB0009E", rc.MQRC_Q_MGR_NAME_ERROR)
    assert error_of(web.ask("GET", f"{BASE}/v3/admin/qmgr/QM2"))[0] == 404


def test_queue_managers_are_listed_with_their_states(site: Site) -> None:
    web, shown = site.web, {"qmgr": [{"name": "QM1", "state": "running"}]}
    assert web.ask("GET", f"{BASE}/v2/admin/qmgr").content == shown
    assert web.ask("GET", f"{BASE}/v2/admin/qmgr/QM1").content == shown
    site.server_status.state = ServingState.FAILED
    assert web.ask("GET", f"{BASE}/v3/admin/qmgr").content == {
        "qmgr": [{"name": "QM1", "state": "endedUnexpectedly"}]
    }
