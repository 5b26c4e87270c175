"""A client of server-sent events, which reads frame by frame."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from tests.facts import PATIENCE_SECONDS
from tests.servers.http.conftest import ADMIN, Web

EVENTS = "/mayfly/v1/qmgr/QM1/events"


class Told(NamedTuple):
    """One frame: its id, its events by name, and its bytes."""

    frame_id: str
    events: dict[str, Any]
    content: bytes

    @property
    def overview(self) -> Any:
        return self.events["overview"]

    @property
    def queues(self) -> dict[str, Any]:
        return {one["name"]: one for one in self.events["queues"]["queues"]}


class Stream:
    """An answer that goes on; a frame ends with the event that has an id, or with the last one."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.answer = answer

    def frame(self) -> Told:
        """Wait for a frame."""
        events, content, frame_id = {}, b"", ""
        while not frame_id and "end" not in events:
            name, frame_id, told, read = self._event()
            content += read
            if name:
                events[name] = told
        return Told(frame_id, events, content)

    def is_at_end(self) -> bool:
        """Tell whether the answer is whole: the server has said so."""
        return self.answer.read() == b""

    def retry(self) -> None:
        """Read what the stream begins with."""
        assert self.answer.readline() + self.answer.readline() == b"retry: 2000\n\n"

    def _event(self) -> tuple[str, str, Any, bytes]:
        name = frame_id = ""
        told, read = None, b""
        while True:
            line = self.answer.readline()
            assert line, "the stream has broken"
            read += line
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if not field:
                return name, frame_id, told, read
            if field == "event":
                name = value
            elif field == "id":
                frame_id = value
            elif field == "data":
                told = json.loads(value)


@contextmanager
def streaming(web: Web, user: tuple[str, str] | None = ADMIN, **headers: str) -> Iterator[Stream]:
    """Have a stream for a block, whose first line is read."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if user is not None:
        sent["authorization"] = f"Basic {base64.b64encode(':'.join(user).encode()).decode()}"
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=PATIENCE_SECONDS)
    with closing(connection):
        connection.request("GET", EVENTS, headers=sent)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["content-type"]) == (
            200,
            "text/event-stream",
        )
        stream = Stream(answer)
        stream.retry()
        yield stream
