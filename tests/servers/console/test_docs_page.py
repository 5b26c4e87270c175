"""The page of operations in a browser: it lists them all, and sends requests."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.servers.http.application import DOCS, OPERATIONS
from mayfly.servers.http.resources.openapi import REST_PATHS, ApiDescription
from tests.servers.console.conftest import Console, sync_api

pytestmark = pytest.mark.pages
MAX_BYTES = 20_480


def test_the_page_is_small() -> None:
    assert sum(len(file.plain) for file in DOCS.files.values()) <= MAX_BYTES


def test_a_user_reads_signs_in_and_changes_a_queue(
    visited: Console, queue_manager: QueueManager
) -> None:
    page = visited.page
    page.goto(f"{visited.origin}/mayfly/v1/docs")
    every = len(ApiDescription(OPERATIONS).operations) + sum(map(len, REST_PATHS.values()))
    sync_api.expect(page.locator("main details")).to_have_count(every)
    visited.sign_in()
    visited.reads(page.get_by_role("status"), re.compile("admin: MQWebAdmin"))

    def opened(name: str) -> Any:
        page.locator(f"#{name} > summary").click()
        made = page.locator(f"#{name}")
        for label, value in (("kind", "qlocal"), ("name", "ORDERS")):
            made.get_by_label(label, exact=True).fill(value)
        return made

    shown = opened("definitions_shown")
    shown.get_by_role("button", name="Send").click()
    visited.sees(shown.get_by_text(re.compile('200 OK.*ETag: "', re.DOTALL)))
    visited.sees(shown.get_by_text('"maxdepth": 5000'))
    altered = opened("definitions_altered")
    altered.get_by_label("body").fill('{"attributes": {"maxdepth": 7}}')
    # The ETag that the page has seen is sent along, also that of the answer before.
    for depth in (7, 8):
        altered.get_by_label("body").fill(f'{{"attributes": {{"maxdepth": {depth}}}}}')
        altered.get_by_role("button", name="Send").click()
        visited.sees(altered.get_by_text(f'"maxdepth": {depth}'))
    assert queue_manager.mqsc("DISPLAY QLOCAL(ORDERS) MAXDEPTH").rows[0]["MAXDEPTH"] == 8

    page.get_by_label("Find").fill("authority-records")
    found = sum("authority-records" in one.path for one in OPERATIONS)
    sync_api.expect(page.locator("main details:visible")).to_have_count(found)
