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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window.

    One for each file: while the library is in use, no other test of the process can run a loop.
    """
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        pytest.skip("no browser: none of " + ", ".join(_PROGRAMS))
    with sync_api.sync_playwright() as library:
        # Chromium's sandbox needs what containers lack; it is not what these tests are about.
        launched = library.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


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

    def tile(self, state: str) -> Any:
        """The number of a state."""
        return self.page.locator(f'[data-state="{state}"] strong')

    def row(self, key: str) -> Any:
        """The row of a table."""
        return self.page.locator(f'tr[data-key="{key}"]')


def watched(context: Any, origin: str) -> Console:
    """Return a console that notes errors, refusals by its policy, and requests to other places."""
    page = context.new_page()
    console = Console(page, origin)
    note = console.complaints.append
    page.on("console", lambda said: said.type in ("error", "warning") and note(said.text))
    page.on("pageerror", lambda error: note(str(error)))
    page.on("request", lambda asked: asked.url.startswith(origin) or note(asked.url))
    return console


@pytest.fixture
def visited(browser: Any, site: Site) -> Iterator[Console]:
    """The console before the sign-in; no test may leave a complaint of the page."""
    yield from looking(browser, site)


@pytest.fixture
def console(browser: Any, site: Site) -> Iterator[Console]:
    """The console at its overview, signed in as an administrator."""
    for console in looking(browser, site, "admin"):
        console.open()
        console.heading("Overview")
        yield console


def looking(browser: Any, site: Site, user: str = "", **options: Any) -> Iterator[Console]:
    """Have a console in a browser, to which a user has logged in already."""
    sync_api.expect.set_options(timeout=PATIENCE_SECONDS * 1_000)
    origin = f"http://127.0.0.1:{site.web.port}"
    context = browser.new_context(
        timezone_id="Europe/Berlin",
        locale="en-GB",
        viewport={"width": 1280, "height": 800},
        storage_state=logged_in(site.web, user, origin) if user else None,
        **options,
    )
    context.set_default_timeout(PATIENCE_SECONDS * 1_000)
    console = watched(context, origin)
    yield console
    context.close()
    assert console.complaints == []


def logged_in(web: Web, user: str, origin: str) -> Any:
    """Return what a browser keeps of a login."""
    body = {"username": user, "password": PASSWORD}
    answer = web.ask("POST", "/ibmmq/rest/v3/login", body, user=None)
    name, _, value = answer.headers["set-cookie"].partition(";")[0].partition("=")
    mark = {"name": "mayfly.signed-in", "value": user}
    return {
        "cookies": [{"name": name, "value": value, "url": origin, "httpOnly": True}],
        "origins": [{"origin": origin, "localStorage": [mark]}],
    }


@pytest.fixture
def web(site: Site) -> Web:
    """A client of it."""
    return site.web
