"""The files of the console: what is sent, how much, and how a browser keeps them."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from mayfly.servers.http.application import CONSOLE, POLICY
from tests.pages import part
from tests.servers.http.conftest import Web

PAGE = Path(__file__).parents[3] / "mayfly" / "servers" / "console" / "page"
#: Bytes of all files together as they cross the network, and of those that the first page loads.
MAX_COMPRESSED = MAX_OF_FIRST_PAGE = 150_000
#: An import of a module at the head of another one; pages of their own are imported when needed.
_IMPORT = re.compile(r"^(?:import|}).* from '\.{1,2}/([\w/.-]+)'", re.MULTILINE)


def test_the_console_is_small_however_its_size_is_told() -> None:
    found = CONSOLE.files
    first = {"index.html", "shell.css", "parts.css", "vendor/uplot.css", "icon.svg"}
    first |= {"theme-first.js", "main.js", "views/overview.js", "vendor/uplot.js"}
    waiting = [name for name in first if name.endswith(".js")]
    while waiting:
        text = found[waiting.pop()].plain.decode()
        named = set(_IMPORT.findall(text)) - first
        first |= named
        waiting += named
    assert sum(len(each.compressed) for each in found.values()) <= MAX_COMPRESSED
    assert sum(len(found[name].plain) for name in first) <= MAX_OF_FIRST_PAGE


def test_no_file_holds_script_or_style_within_its_markup() -> None:
    ours = [path for path in PAGE.rglob("*.*") if path.parent.name != "vendor"]
    assert {path.suffix for path in ours} == {".html", ".js", ".css", ".svg"}
    for path in ours:
        text = path.read_text("utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|\beval\(", text), path.name
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), path.name
    page = (PAGE / "index.html").read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! [^>]*src=)", page)


def test_vendored_uplot_is_the_published_file_with_one_line_that_exports_it() -> None:
    text = (PAGE / "vendor" / "uplot.js").read_text("utf-8")
    head, *_, exported = text.splitlines()
    assert head == "/*! https://github.com/leeoniya/uPlot (v1.6.32) */"
    assert exported == "export default uPlot;"
    assert "MIT License" in (PAGE / "vendor" / "uplot.LICENSE").read_text("utf-8")


def test_a_page_has_its_policy_and_is_revalidated(web: Web) -> None:
    answer = web.ask("GET", "/console/", user=None)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["vary"] == "Accept-Encoding"
    assert "content-encoding" not in answer.headers
    known = web.ask("GET", "/console/", user=None, if_none_match=f'"x", {answer.headers["etag"]}')
    assert (known.status, known.content) == (304, "")
    assert known.headers["etag"] == answer.headers["etag"]
    assert web.ask("GET", "/console/", user=None, if_none_match='W/"x"').status == 200


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [
        ("gzip, deflate, br", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("br", False),
        ("", False),
    ],
)
def test_a_file_is_compressed_for_those_who_take_that(
    web: Web, accepted: str, is_compressed: bool
) -> None:
    connection = web._connect()
    connection.request("GET", "/console/main.js", headers={"accept-encoding": accepted})
    answer = connection.getresponse()
    body, encoding = answer.read(), answer.headers["content-encoding"]
    connection.close()
    assert (encoding == "gzip") is is_compressed
    assert (gzip.decompress(body) if is_compressed else body) == (PAGE / "main.js").read_bytes()


@pytest.mark.parametrize(
    "path", ["nothing.js", "views", "views/", "../serving.py", "%2e%2e/serving.py", "//main.js"]
)
def test_no_other_file_can_be_had(web: Web, path: str) -> None:
    assert web.ask("GET", f"/console/{path}", user=None).status == 404


def test_a_browser_is_led_to_the_console_and_other_clients_are_not(web: Web) -> None:
    page = web.ask("GET", "/", user=None, accept="text/html,*/*;q=0.8")
    assert (page.status, page.headers["location"]) == (303, "/console/")
    assert web.ask("GET", "/console", user=None).headers["location"] == "/console/"
    assert web.ask("GET", "/", user=None, accept="*/*").status == 404
    assert web.ask("POST", "/console/", b"", user=None).status == 405


@pytest.mark.parametrize("path", ["/mayfly/v1/qmgr/QM1/queues", "/ibmmq/rest/v3/login"])
def test_a_script_is_refused_without_a_challenge_at_which_the_browser_would_ask(
    web: Web, path: str
) -> None:
    wrong = ("admin", "wrong")
    asked = web.ask("GET", path, user=wrong)
    assert (asked.status, "www-authenticate" in asked.headers) == (401, True)
    fetched = web.ask("GET", path, user=wrong, sec_fetch_dest="empty")
    assert (fetched.status, "www-authenticate" in fetched.headers) == (401, False)


def test_the_documentation_names_every_page_with_its_key_and_shows_small_pictures() -> None:
    docs = Path(__file__).parents[3] / "docs"
    text = part("METRICS.md", "The console")
    pages = re.findall(r"title: '([\w ]+)', key: '(\w)'", (PAGE / "main.js").read_text("utf-8"))
    assert len(pages) > 5
    assert re.findall(r"^\| ([\w ]+) \| `g (\w)` \|", text, re.MULTILINE) == pages
    pictures = re.findall(r"^!\[.+\]\((images/[\w-]+\.png)\)$", text, re.MULTILINE)
    assert len(pictures) >= 4
    assert [name for name in pictures if (docs / name).stat().st_size > 100_000] == []
