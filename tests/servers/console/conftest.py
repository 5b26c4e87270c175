"""A browser that looks at the console of a queue manager in virtual time, behind a real socket."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from mayfly import QueueManager
from tests.connection.serving import AdmitEverybody
from tests.facts import PATIENCE_SECONDS
from tests.servers.http.conftest import Site, Web, listening

sync_api = pytest.importorskip("playwright.sync_api")

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PASSWORD = "a password"
#: An icon is asked for where a page names none.
_NOTHING = '<link rel="icon" href="data:,">'


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    """A page of a browser without a window; each test looks at a server of its own with it.

    One for each file: while the library is in use, no other test of the process can run a loop.
    """
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        pytest.skip("no browser: none of " + ", ".join(_PROGRAMS))
    sync_api.expect.set_options(timeout=PATIENCE_SECONDS * 1_000)
    with sync_api.sync_playwright() as library:
        # Chromium's sandbox needs what containers lack; it is not what these tests are about.
        browser = library.chromium.launch(
            executable_path=program, args=["--no-sandbox"], timeout=PATIENCE_SECONDS * 1_000
        )
        made = browser.new_page(
            timezone_id="Europe/Berlin", locale="en-GB", viewport={"width": 1280, "height": 800}
        )
        made.set_default_timeout(PATIENCE_SECONDS * 1_000)
        yield made
        browser.close()


@pytest.fixture
def site(queue_manager: QueueManager) -> Iterator[Site]:
    """``QM1`` behind HTTP, where admin may do everything and other users are programs."""
    script = "DEFINE QLOCAL(ORDERS) DEFPSIST(YES)\nDEFINE QLOCAL(REPORTS)\nDEFINE QLOCAL(DLQ)"
    assert queue_manager.mqsc(f"{script}\nALTER QMGR DEADQ(DLQ)").ok
    yield from listening(queue_manager, admission=AdmitEverybody(operators=frozenset({"admin"})))


@dataclass
class Console:
    """The console in a page of the browser, and all that the page has complained about."""

    page: Any
    origin: str
    complaints: list[str] = field(default_factory=list)
    #: A part of those complaints that are what a test is about.
    excused: str | None = None

    def open(self, place: str = "") -> None:
        """Go to a page of the console."""
        self.page.goto(f"{self.origin}/console/{place}")

    def sign_in(self, user: str = "admin", password: str = PASSWORD) -> None:
        """Fill the form of the sign-in."""
        self.page.get_by_label("User").fill(user)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in").click()

    def heading(self, text: str) -> None:
        """Wait for the heading of a page."""
        self.sees(self.page.get_by_role("heading", name=text, level=1, exact=True))

    def sees(self, locator: Any) -> None:
        """Wait until something is seen."""
        sync_api.expect(locator).to_be_visible()

    def reads(self, locator: Any, text: Any) -> None:
        """Wait until something has a text."""
        sync_api.expect(locator).to_have_text(text)

    def tile(self, figure: str) -> Any:
        """A figure of a tile."""
        return self.page.locator(f'[data-figure="{figure}"] strong')

    def row(self, key: str) -> Any:
        """The row of a table."""
        return self.page.locator(f'tr[data-key="{key}"]')


@pytest.fixture
def visited(page: Any, site: Site) -> Iterator[Console]:
    """The console before the sign-in; no test may leave a complaint of the page."""
    yield from looking(page, site)


@pytest.fixture
def console(page: Any, site: Site) -> Iterator[Console]:
    """The console at its overview, signed in as an administrator."""
    for console in looking(page, site, "admin"):
        console.open()
        console.heading("Overview")
        yield console


def looking(page: Any, site: Site, user: str = "", *, port: int | None = None) -> Iterator[Console]:
    """Have a page for a server, where a user has logged in already; by another port if given.

    Errors of the page, refusals by its policy, and requests to other places are complaints.
    """
    origin = f"http://127.0.0.1:{port or site.web.port}"
    console = Console(page, origin)
    note = console.complaints.append
    noting = {
        "console": lambda said: said.type in ("error", "warning") and note(said.text),
        "pageerror": lambda error: note(str(error)),
        "request": lambda asked: asked.url.startswith(origin) or note(asked.url),
    }
    for event, listener in noting.items():
        page.on(event, listener)
    if user:
        log_in(console, site.web, user)
    yield console
    for event, listener in noting.items():
        page.remove_listener(event, listener)
    page.goto("about:blank")
    page.context.clear_cookies()
    page.emulate_media(color_scheme="no-override")
    excused = console.excused
    assert [each for each in console.complaints if excused is None or excused not in each] == []


def log_in(console: Console, web: Web, user: str) -> None:
    """Let a user log in elsewhere, and the browser keep what it would have kept of that."""
    body = {"username": user, "password": PASSWORD}
    answer = web.ask("POST", "/ibmmq/rest/v3/login", body, user=None)
    name, _, value = answer.headers["set-cookie"].partition(";")[0].partition("=")
    console.page.context.add_cookies([{"name": name, "value": value, "url": console.origin}])
    # A page of the same origin that is not the server's: only there its storage can be reached.
    place, page = f"{console.origin}/storage", console.page
    page.route(place, lambda route: route.fulfill(content_type="text/html", body=_NOTHING))
    page.goto(place)
    page.evaluate(f"localStorage.setItem('mayfly.signed-in', '{user}')")
    page.unroute(place)


@pytest.fixture
def web(site: Site) -> Web:
    """A client of it."""
    return site.web
