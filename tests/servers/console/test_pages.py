"""Every page of the console, in both colours: looked at by axe-core, and measured on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.testing import VirtualClock
from tests.servers.console.conftest import Console, sync_api
from tests.servers.http.conftest import Site

pytestmark = pytest.mark.pages

#: ``make pages`` fetches it from npm, once.
AXE = Path(__file__).parents[3] / ".venv" / "axe-core" / "package" / "axe.min.js"
HOUR_MS = 3_600_000
#: Pages by their headings; ID is a message with a trace, PLACE one on DLQ.
PAGES = {
    "overview": "Overview",
    "history": "Over time",
    "fleet": "Fleet",
    "queues": "Queues",
    "queue/ORDERS": "ORDERS",
    "messages/ORDERS": "Messages of ORDERS",
    "message/DLQ/PLACE": "Message",
    "put/ORDERS": "Put a message on ORDERS",
    "find?text=x": "Found",
    "schedule": "Schedule",
    "trace/ID": "Trace of a message",
    "deadletters": "Dead letters",
    "expired": "Expired",
    "ledger": "Ledger",
    "whatif": "What if",
    "channels": "Channels",
    "channels/SYSTEM.DEF.SVRCONN": "SYSTEM.DEF.SVRCONN",
    "connections": "Connections",
    "claims": "Consumers",
    "objects": "Objects",
    "mqsc": "MQSC",
    "objects/qlocal/ORDERS": "ORDERS",
    "objects/channel/SYSTEM.DEF.SVRCONN": "SYSTEM.DEF.SVRCONN",
    "users": "Users",
    "about": "About",
}


@pytest.fixture
def busy(site: Site, queue_manager: QueueManager, clock: VirtualClock) -> Iterator[tuple[str, str]]:
    """A queue manager with messages in each state; the MsgId of one that has expired.

    Beside it comes the place of a dead letter.
    """
    assert queue_manager.mqsc(
        "DEFINE QLOCAL(SHUT)\nDEFINE CHANNEL(SYSTEM.DEF.SVRCONN) +\n CHLTYPE(SVRCONN) REPLACE"
    ).ok
    with queue_manager.session(user="anna") as session:
        msg_id = session.put("ORDERS", b"x", delay_ms=HOUR_MS, time_to_live_ms=2 * HOUR_MS)
        session.put("SHUT", b"x", delay_ms=HOUR_MS)
        assert queue_manager.mqsc("ALTER QLOCAL(SHUT) PUT(DISABLED)").ok
        clock.advance(2 * HOUR_MS)
        assert session.get("ORDERS") is None
        for hours in (1, 2, 30):
            session.put("ORDERS", b"x", delay_ms=hours * HOUR_MS)
        session.put("REPORTS", b"x", time_to_live_ms=1_000)
        session.put("REPORTS", b"x")
        session.put("ORDERS", b'{"order": 4242}', properties={"order": "4242"})
        clock.advance(2_000)
    letters = site.web.ask("GET", "/mayfly/v1/qmgr/QM1/dead-letters").content["letters"]
    with queue_manager.session(user="bert", transacted=True) as open_unit:
        open_unit.put("ORDERS", b"x")
        assert open_unit.get("REPORTS", wait_ms=0) is not None
        yield msg_id.hex(), letters[0]["place"]
        open_unit.backout()


def address_of(place: str, busy: tuple[str, str]) -> str:
    """Return the address of a page, with the id and the place of the dead letter of ``busy``."""
    return place.replace("ID", busy[0]).replace("PLACE", busy[1])


def test_axe_finds_no_violation_on_any_page_in_either_colours(
    busy: tuple[str, str], console: Console
) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not there: make fetches it where npm is")
    page = console.page
    page.evaluate(AXE.read_text("utf-8"))
    found: list[str] = []
    for place, heading in PAGES.items():
        page.evaluate(f"location.hash = '#/{address_of(place, busy)}'")
        console.heading(heading)
        sync_api.expect(page.locator("main .panel, main .table").first).to_be_visible()
        page.emulate_media(color_scheme="light")
        found += [f"{place} {each}" for each in violations(page)]
        page.emulate_media(color_scheme="dark")
        found += [f"{place} dark {each}" for each in violations(page, "color-contrast")]
    page.keyboard.press("?")
    found += violations(page)
    page.keyboard.press("Escape")
    page.evaluate("location.hash = '#/objects'")
    page.get_by_role("button", name="Define…").click()
    sync_api.expect(page.get_by_label("MAXDEPTH", exact=True)).to_be_visible()
    found += violations(page)
    assert found == []
    page.evaluate("document.querySelector('dialog').append(new Image())")
    assert [each.partition(":")[0] for each in violations(page)] == ["image-alt"]


#: Returns what is wider than the page, and texts that lie over one another; what scrolls or is cut
#: within its place is neither.
_MEASURE = """() => {
  const wide = document.documentElement.scrollWidth;
  const found = wide > innerWidth ? [`the page is ${wide} wide`] : [];
  const clipped = (element, rect) => {
    let {left, right, top, bottom} = rect;
    for (let each = element; each && each.tagName !== 'BODY'; each = each.parentElement) {
      if (getComputedStyle(each).overflow === 'visible') continue;
      const {left: l, right: r, top: t, bottom: b} = each.getBoundingClientRect();
      [left, right] = [Math.max(left, l), Math.min(right, r)];
      [top, bottom] = [Math.max(top, t), Math.min(bottom, b)];
    }
    return {left, right, top, bottom};
  };
  const texts = [];
  const main = document.querySelector('main');
  if (main.scrollWidth > main.clientWidth) found.push(`main is ${main.scrollWidth} wide`);
  for (const root of [document.querySelector('header'), main]) {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const {textContent, parentElement} = walk.currentNode;
      if (!textContent.trim() || parentElement.closest('svg, select, textarea')) continue;
      const range = document.createRange();
      range.selectNodeContents(walk.currentNode);
      for (const each of range.getClientRects()) {
        const rect = clipped(parentElement, each);
        if (rect.right - rect.left < 3 || rect.bottom - rect.top < 3) continue;
        if (rect.right > innerWidth + 1 || rect.left < -1) found.push(`outside: ${textContent}`);
        texts.push([textContent, rect]);
      }
    }
  }
  texts.forEach(([text, one], index) => {
    for (const [other, two] of texts.slice(index + 1)) {
      const across = Math.min(one.right, two.right) - Math.max(one.left, two.left);
      const down = Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top);
      if (across > 2 && down > 6) found.push(`${text} lies over ${other}`);
    }
  });
  return found.slice(0, 5);
}"""


#: A box that is too wide, and a text over the heading.
_SPOILED = """() => {
  const text = document.createElement('p');
  text.append('over the heading');
  text.style.position = 'absolute';
  document.querySelector('h1').before(text);
  const box = document.createElement('div');
  box.style.minWidth = `${2000 - 2 * 24}px`;
  document.querySelector('main').append(box);
}"""


def test_nothing_overflows_or_overprints_from_a_phone_to_a_desk_in_both_colours(
    busy: tuple[str, str], console: Console
) -> None:
    page, found = console.page, list[str]()
    try:
        for place, heading in PAGES.items():
            page.evaluate(f"location.hash = '#/{address_of(place, busy)}'")
            console.heading(heading)
            sync_api.expect(page.locator("main .panel, main .table").first).to_be_visible()
            for width in (360, 768, 1280):
                page.set_viewport_size({"width": width, "height": 740})
                for scheme in ("light", "dark"):
                    page.emulate_media(color_scheme=scheme)
                    found += [f"{place} {width} {scheme}: {each}" for each in measured(page)]
        assert found == []
        page.evaluate(_SPOILED)
        told = " ".join(measured(page))
        assert "main is 2000 wide" in told
        assert "over the heading lies over About" in told
    finally:
        page.set_viewport_size({"width": 1280, "height": 800})


def measured(page: Any) -> list[str]:
    """Return what overflows when the page has been laid out and painted."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    told: list[str] = page.evaluate(_MEASURE)
    return told


def violations(page: Any, *rules: str) -> list[str]:
    """Return what axe-core finds, by some rules or all, with the first element of each kind."""
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    told = page.evaluate("options => axe.run(document, options)", options)
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in told["violations"]]
