"""Requests of IBM's documentation, sent by curl as they stand there: host and users are ours."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mayfly import QueueManager
from mayfly.admin.security.admission import Admission
from mayfly.admin.security.developer import self_signed_certificate
from mayfly.runtime import SystemClock
from mayfly.servers.settings import TlsFiles
from tests.servers.http.conftest import APP, listening

DOCS = Path(__file__).parents[3] / "docs"
#: "Getting started with the messaging REST API" (q130950).
PUT = (
    "curl -k https://localhost:9443/ibmmq/rest/v2/messaging/qmgr/QM1/queue/MSGQ/message -X POST "
    '-u mquser:mquser -H "ibm-mq-rest-csrf-token: value" '
    '-H "Content-Type: text/plain;charset=utf-8" --data "Hello World!"'
)
GET = (
    "curl -k https://localhost:9443/ibmmq/rest/v2/messaging/qmgr/QM1/queue/MSGQ/message -X DELETE "
    '-u mquser:mquser -H "ibm-mq-rest-csrf-token: value"'
)
#: "Using token-based authentication with the REST API" (q128720).
LOGIN = (
    "curl -k https://localhost:9443/ibmmq/rest/v1/login -X POST "
    '-H "Content-Type: application/json" '
    '--data "{\\"username\\":\\"mquser\\",\\"password\\":\\"mquser\\"}" -c cookiejar.txt'
)
WHO = "curl -k https://localhost:9443/ibmmq/rest/v1/login -X GET -b cookiejar.txt"
PUT_BY_COOKIE = (
    "curl -k https://localhost:9443/ibmmq/rest/v1/messaging/qmgr/QM1/queue/MSGQ/message -X POST "
    '-H "ibm-mq-rest-csrf-token: value" -H "Content-Type: text/plain;charset=utf-8" '
    '-b cookiejar.txt --data "Hello again"'
)
LOGOUT = (
    "curl -k https://localhost:9443/ibmmq/rest/v1/login -X DELETE "
    '-H "ibm-mq-rest-csrf-token: value" -b cookiejar.txt -c cookiejar.txt'
)
#: The sample of a POST: persistent, with a life of two minutes and a correlation id (q130750).
PUT_WITH_HEADERS = (
    "curl -k https://localhost:9443/ibmmq/rest/v1/messaging/qmgr/QM1/queue/MSGQ/message -X POST "
    '-u mquser:mquser -H "ibm-mq-rest-csrf-token: value" '
    '-H "Content-Type: text/plain;charset=utf-8" -H "ibm-mq-md-persistence: persistent" '
    '-H "ibm-mq-md-correlationId: 414d5120514d4144455620202020202067d8ce5923582f07" '
    '-H "ibm-mq-md-expiry: 120000" --data "Hello World!"'
)
GET_BY_CORRELATION = GET.replace("rest/v2", "rest/v1").replace(
    "/message ", '/message?correlationId="414d5120514d4144455620202020202067d8ce5923582f07" '
)


@pytest.fixture
def curl(
    developed: QueueManager, admission: Admission, tmp_path: Path
) -> Iterator[Callable[[str], tuple[int, str]]]:
    """Run a line of the documentation; return status and body."""
    if shutil.which("curl") is None:
        pytest.skip("curl sends the requests")
    assert developed.mqsc(
        "DEFINE QLOCAL(MSGQ)\n"
        "SET AUTHREC PROFILE(MSGQ) OBJTYPE(QUEUE) GROUP(developers) AUTHADD(PUT,GET,BROWSE)"
    ).ok
    files = self_signed_certificate(tmp_path, ["localhost"], SystemClock().now_ms())
    for site in listening(developed, admission=admission, tls=TlsFiles(*files)):
        port = site.web.port

        def run(line: str, *, port: int = port) -> tuple[int, str]:
            line = line.replace("localhost:9443", f"127.0.0.1:{port}")
            line = line.replace("mquser:mquser", ":".join(APP)).replace(
                "app:passw0rd", ":".join(APP)
            )
            line = line.replace('"mquser\\"', f'"{APP[0]}\\"', 1).replace("mquser", APP[1])
            command = [*shlex.split(line), "-s", "-w", "\\n%{http_code}"]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
            body, _, status = done.stdout.rpartition("\n")
            return int(status), body

        yield run


def test_getting_started(curl: Callable[[str], tuple[int, str]]) -> None:
    assert curl(PUT) == (201, "")
    assert curl(GET) == (200, "Hello World!")
    assert curl(GET) == (204, "")


def test_token_based_authentication(curl: Callable[[str], tuple[int, str]]) -> None:
    assert curl(LOGIN) == (204, "")
    status, body = curl(WHO)
    assert (status, json.loads(body)["user"][0]["name"]) == (200, "app")
    assert curl(PUT_BY_COOKIE) == (201, "")
    assert curl(LOGOUT) == (204, "")
    # curl has taken the cookie out of its jar.
    assert curl(PUT_BY_COOKIE)[0] == 401
    assert curl(GET) == (200, "Hello again")


def test_headers_of_the_sample(
    curl: Callable[[str], tuple[int, str]], developed: QueueManager
) -> None:
    assert curl(PUT_WITH_HEADERS) == (201, "")
    with developed.session() as session:
        [message] = session.browse("MSGQ")
    assert message.persistent
    assert message.expire_at_ms == message.put_ms + 120_000
    assert curl(GET_BY_CORRELATION) == (200, "Hello World!")


def test_the_lines_of_our_own_documentation(curl: Callable[[str], tuple[int, str]]) -> None:
    text = (DOCS / "HTTP.md").read_text("utf-8").replace("\\\n", "")
    put, get = [line.removeprefix("$ ") for line in text.splitlines() if "curl -k" in line]
    assert curl(put) == (201, "")
    assert curl(get) == (200, "Hello World!")
