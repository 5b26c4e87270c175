"""The log of a server: a line is one record, whatever a client has sent."""

from __future__ import annotations

import io
import json
import logging

import pytest

from mayfly.servers.logs import LogForm, log_to

LOG = logging.getLogger("mayfly.some.part")


def lines(form: LogForm) -> list[str]:
    stream = io.StringIO()
    with log_to(stream, form):
        LOG.info("started")
        LOG.warning("user %r refused", "x\ny", extra={"queue_manager": "QM1", "reason": 2035})
        LOG.warning("two\nlines\x1b[2J")
    LOG.error("after the block nobody listens")
    return stream.getvalue().splitlines()


def test_plain_has_warnings_and_one_line_each(caplog: pytest.LogCaptureFixture) -> None:
    assert lines(LogForm.PLAIN) == ["mayfly: user 'x\\ny' refused", "mayfly: two lines?[2J"]


def test_text_has_time_and_level(caplog: pytest.LogCaptureFixture) -> None:
    started, refused, _ = lines(LogForm.TEXT)
    assert started[10:11] + started[23:] == "TZ INFO    started"
    assert refused.endswith("WARNING user 'x\\ny' refused")


def test_json_has_the_facts_as_fields(caplog: pytest.LogCaptureFixture) -> None:
    started, refused, third = map(json.loads, lines(LogForm.JSON))
    assert (started["level"], started["message"]) == ("info", "started")
    assert {**refused, "time": ""} == {
        "time": "",
        "level": "warning",
        "message": "user 'x\\ny' refused",
        "queue_manager": "QM1",
        "reason": 2035,
    }
    assert third["message"] == "two\nlines\x1b[2J"
