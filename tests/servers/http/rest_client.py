"""A client of IBM's REST API: paths, the header against CSRF, and what its errors say."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from tests.servers.http.conftest import APP, Answer, Web

BASE = "/ibmmq/rest"


@dataclass
class RestClient:
    """Requests of a user of QM1 in one version of the API."""

    web: Web
    version: int = 3
    user: tuple[str, str] | None = APP
    manager: str = "QM1"

    def queue(self, name: str, rest: str = "message") -> str:
        """Return the path of a resource of a queue."""
        return f"{self.base}/messaging/qmgr/{self.manager}/queue/{quote(name, safe='')}/{rest}"

    @property
    def base(self) -> str:
        """The path of this version."""
        return f"{BASE}/v{self.version}"

    def ask(
        self, method: str, path: str, body: bytes | None = None, /, **headers: str | list[str]
    ) -> Answer:
        """Send a request with the header against CSRF; text is plain unless a header says so."""
        sent: dict[str, str | list[str]] = {"ibm-mq-rest-csrf-token": ""}
        if body is not None:
            sent["content-type"] = "text/plain;charset=utf-8"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.web.ask(method, path, body, user=self.user, **sent)

    def put(self, queue: str, text: str = "Hello", **headers: str | list[str]) -> Answer:
        """Put a message; _ is - in a header."""
        return self.ask("POST", self.queue(queue), text.encode(), **headers)

    def get(self, queue: str, query: str = "", **headers: str | list[str]) -> Answer:
        """Get a message destructively."""
        return self.ask("DELETE", self.queue(queue) + query, None, **headers)

    def browse(self, queue: str, query: str = "", **headers: str | list[str]) -> Answer:
        """Browse the first message."""
        return self.ask("GET", self.queue(queue) + query, None, **headers)

    def list(self, queue: str, query: str = "") -> Answer:
        """List messages."""
        return self.ask("GET", self.queue(queue, "messagelist") + query)


def md(answer: Answer) -> dict[str, str]:
    """Return what the headers of an answer say of the message, without their common beginning."""
    start = "ibm-mq-"
    return {
        name.removeprefix(start).removeprefix("md-"): value
        for name, value in answer.headers.items()
        if name.startswith(start)
    }


def error_of(answer: Answer) -> tuple[int, str, int | None, str]:
    """Return status, number, reason code and text of an error, whose shape is IBM's."""
    [error] = answer.content["error"]
    assert answer.headers["content-type"] == "application/json;charset=utf-8"
    assert error["type"] == "rest"
    assert error["messageId"] == error["msgId"]
    number, colon, text = error["message"].partition(": ")
    assert (number, colon) == (error["msgId"], ": ")
    assert error["explanation"]
    assert error["action"]
    assert ("completionCode" in error) == ("reasonCode" in error)
    return answer.status, number, error.get("reasonCode"), text
