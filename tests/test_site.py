"""``make site``: the pages as a web site, whose links all lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.readme import ROOT

SITE = ROOT / "docs" / "site"


def test_the_menu_and_the_reference_name_what_is_there() -> None:
    menu = re.findall(r": ([\w/]+\.md)$", (SITE / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert [page for page in menu if not (ROOT / page).is_file()] == []
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert pages <= set(menu)
    for name in re.findall(r"^::: (\S+)$", (SITE / "API.md").read_text("utf-8"), re.MULTILINE):
        module, _, member = name.rpartition(".")
        text = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8")
        assert re.search(rf"^(class|def) {member}\b", text, re.MULTILINE), name


@pytest.mark.soak
def test_the_site_is_built_and_has_pages_reference_and_search() -> None:
    """mkdocs says of each link that leads nowhere, and ends with an error then."""
    if find_spec("material") is None or find_spec("mkdocstrings") is None:
        pytest.skip("the extra site is not installed")
    made = subprocess.run(
        ["make", "site", "READY=", f"BIN={Path(sys.executable).parent}"],
        cwd=ROOT,
        # Also packages that this process has from elsewhere.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert "left out" not in made.stdout
    html = ROOT / "build" / "site" / "html"
    assert "Delayed jobs in a web shop" in (html / "docs/SESSION.html").read_text("utf-8")
    assert "define_queue" in (html / "docs/site/API.html").read_text("utf-8")
    assert "define_queue" in (html / "search/search_index.json").read_text("utf-8")
