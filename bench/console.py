"""The console in a browser: first paint, bytes sent, and a million delayed messages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from bench.figures import Figure, at_most, median
from mayfly import QueueManager

_NAME: Final = "BENCH"
_USER, _PASSWORD = "admin", "bench-password"
_PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
_DAY_MS: Final = 86_400_000
_PER_UNIT: Final = 10_000
_SEED: Final = 24
_LOADS, _STEPS = 7, 12
#: Resolves with the time, in ms, until a step of the timeline has its counts.
_ZOOMED: Final = """key => new Promise(resolve => {
  const [canvas] = document.querySelectorAll('.timeline canvas');
  const begin = performance.now();
  const seen = new MutationObserver(() => {
    seen.disconnect();
    resolve(performance.now() - begin);
  });
  seen.observe(canvas, {attributeFilter: ['aria-label']});
  canvas.parentElement.dispatchEvent(new KeyboardEvent('keydown', {key}));
})"""
#: Resolves with the times between frames while the wheel turns.
_FRAMES: Final = """() => new Promise(resolve => {
  const place = document.querySelector('.timeline'), found = [];
  let last = performance.now();
  const frame = now => {
    found.push(now - last);
    last = now;
    const deltaY = found.length < 30 ? -20 : 20;
    place.dispatchEvent(new WheelEvent('wheel', {deltaY, clientX: 600, cancelable: true}));
    if (found.length < 60) requestAnimationFrame(frame); else resolve(found.slice(1));
  };
  requestAnimationFrame(frame);
})"""


def figures(count: int = 1_000_000) -> Iterator[Figure]:
    """Serve a folder with delayed messages, and look at it; a smaller count is for trying out."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        return
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as home:
        _fill(Path(home) / _NAME, count)
        with _served(Path(home)) as origin, sync_playwright() as library:
            browser = library.chromium.launch(executable_path=program, args=["--no-sandbox"])
            yield from _of_first_page(browser, origin)
            yield from _of_timeline(browser, origin, count)
            browser.close()


def _fill(folder: Path, count: int) -> None:
    """Put messages that are due over 30 days."""
    chance = Random(_SEED)
    with QueueManager(_NAME, folder) as manager:
        manager.mqsc("DEFINE QLOCAL(ORDERS) MAXDEPTH(999999999)")
        manager.mqsc("ALTER QLOCAL(SYSTEM.DDELAY.LOCAL.QUEUE) MAXDEPTH(999999999)")
        with manager.session(transacted=True) as session:
            for number in range(count):
                delay_ms = _DAY_MS + chance.randrange(30 * _DAY_MS)
                session.put("ORDERS", b"x" * 20, delay_ms=delay_ms, persistent=True)
                if number % _PER_UNIT == _PER_UNIT - 1:
                    session.commit()
            session.commit()


@contextmanager
def _served(home: Path) -> Iterator[str]:
    """Serve the folder by the command that serves one; yield where."""
    command = [sys.executable, "-m", "mayfly", "serve", _NAME, "--dev", "--json"]
    command += ["--http", "127.0.0.1:0"]
    environment = {**os.environ, "MAYFLY_HOME": str(home), "MAYFLY_ADMIN_PASSWORD": _PASSWORD}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://{json.loads(server.stdout.readline())['http']}"
        finally:
            server.terminate()


def _of_first_page(browser: Any, origin: str) -> Iterator[Figure]:
    """Load the console anew, each time without anything in the cache."""
    paints_ms, bytes_sent = [], 0
    for _ in range(_LOADS):
        page = browser.new_page()
        page.goto(f"{origin}/console/")
        page.get_by_role("heading", name="Sign in").wait_for()
        paints_ms.append(
            page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        )
        sizes = "performance.getEntriesByType(kind).reduce((sum, one) => sum + one.transferSize, 0)"
        bytes_sent = sum(
            page.evaluate(f"kind => {sizes}", kind) for kind in ("navigation", "resource")
        )
        page.close()
    name = "console: first paint on loopback"
    yield at_most(name, median(paints_ms), 300, " ms", samples=paints_ms)
    yield at_most("console: first page over the network", bytes_sent / 1_000, 150, " kB")


def _of_timeline(browser: Any, origin: str, count: int) -> Iterator[Figure]:
    page = browser.new_page()
    page.goto(f"{origin}/console/#/schedule")
    page.get_by_label("User").fill(_USER)
    page.get_by_label("Password").fill(_PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text(f"of {count:,} messages").wait_for(timeout=300_000)
    steps_ms = [page.evaluate(_ZOOMED, "+" if n % 6 < 3 else "-") for n in range(_STEPS)]
    frames_ms = sorted(page.evaluate(_FRAMES))
    name = f"timeline of {count:,} delayed messages"
    note = "counts of all steps; 60 ms of it are the wait for the next key"
    title = f"{name}: a step of the zoom"
    yield at_most(title, median(steps_ms), 200, " ms", note, samples=steps_ms)
    late_ms = frames_ms[len(frames_ms) * 95 // 100]
    yield at_most(f"{name}: between frames while the wheel turns, p95", late_ms, 34, " ms")
