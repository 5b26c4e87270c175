"""MQSC by HTTP: what ``mayfly mqsc`` prints, completion, and the roles of its commands."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from mayfly import QueueManager
from mayfly.admin.mqsc.completion import help_about
from mayfly.admin.security.users import users_of
from tests.servers.http.conftest import Web

QM1 = "/mayfly/v1/qmgr/QM1"
MQSC = f"{QM1}/mqsc"


def test_a_script_is_answered_as_on_the_command_line(web: Web, queue_manager: QueueManager) -> None:
    script = "DISPLAY QLOCAL(Q1) MAXDEPTH\nDELETE QLOCAL(NO.SUCH)\nPING QMGR"
    answer = web.ask("POST", MQSC, {"script": script})
    assert answer.content == {
        "text": queue_manager.mqsc(script).text,
        "ok": False,
        "is_valid": True,
        "has_secret": False,
    }
    wrong = web.ask("POST", MQSC, {"script": "DISPLAY QLOCL(Q1)"}).content
    assert (wrong["ok"], wrong["is_valid"]) == (False, False)
    assert "not QLOCL" in wrong["text"]
    told = web.ask("POST", MQSC, {"script": "alter qmgr keyrpwd('x')"}).content
    assert (told["ok"], told["has_secret"]) == (True, True)


@pytest.mark.parametrize("about", ["", "DEFINE", "def ql"])
def test_help_is_that_of_the_terminal(web: Web, about: str) -> None:
    answer = web.ask("POST", MQSC, {"script": f"HELP {about}"})
    assert answer.content["text"] == f"{help_about(about)}\n"


@pytest.mark.parametrize(
    ("typed", "word", "some"),
    [
        ("", "", {"DEFINE", "DISPLAY"}),
        ("DEF QL", "QL", {"QLOCAL"}),
        ("PING QMGR\nDEFINE QLOCAL(A) +\n maxd", "maxd", {"MAXDEPTH"}),
        ("ALTER QLOCAL(A) PUT(", "", {"ENABLED", "DISABLED"}),
    ],
)
def test_the_word_that_is_typed_is_completed(
    web: Web, typed: str, word: str, some: set[str]
) -> None:
    found = web.ask("GET", f"{MQSC}/words?typed={quote(typed)}").content
    assert found["word"] == word
    assert some <= set(found["candidates"])


def test_a_command_needs_the_role_that_it_needs_everywhere(
    developed: QueueManager, guarded: Web
) -> None:
    users_of(developed.engine).add("lena", "looks")
    assert developed.mqsc(
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL(lena) AUTHADD(CONNECT,DSP)\n"
        "SET CHLAUTH(DEV.ADMIN.SVRCONN) TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(CHANNEL)"
    ).ok
    lena = ("lena", "looks")
    script = "DISPLAY QLOCAL(DEV.QUEUE.1) DESCR"
    assert guarded.ask("POST", MQSC, {"script": script}, user=lena).content["ok"]
    both = f"{script}\nDEFINE QLOCAL(NEW)"
    refused = guarded.ask("POST", MQSC, {"script": both}, user=lena)
    assert refused.said[::2] == (403, 2035)
    assert not developed.mqsc("DISPLAY QLOCAL(NEW)").ok
    assert guarded.ask("POST", MQSC, {"script": both}).content["ok"]
