"""docs/DEVELOPING.md and docs/SESSION.md: what they show runs, and what they list is there."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mayfly import QueueManager
from mayfly.engine import Session
from mayfly.testing import VirtualClock
from mayfly.verbs.messages import Message
from tests.pages import part

BLOCKS = re.findall(
    r"```python\n(.*?)```", part("DEVELOPING.md", "Programs in one process"), re.DOTALL
)


def shown_tests() -> dict[str, Callable[..., None]]:
    """Return the tests that docs/DEVELOPING.md shows, by name, as its reader would type them."""
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(compile(block, "DEVELOPING.md", "exec"), names)
    return {name: value for name, value in names.items() if name.startswith("test_")}


SHOWN = shown_tests()


@pytest.mark.parametrize("name", SHOWN)
def test_each_test_in_the_page_about_testing_passes(
    name: str, queue_manager: QueueManager, clock: VirtualClock, tmp_path: Path
) -> None:
    given = {"queue_manager": queue_manager, "clock": clock, "tmp_path": tmp_path}
    shown = SHOWN[name]
    shown(**{parameter: given[parameter] for parameter in inspect.signature(shown).parameters})


def test_the_page_about_testing_shows_a_test_of_each_kind() -> None:
    assert len(SHOWN) == len(BLOCKS) == 5


def test_the_session_of_the_page_prints_what_stands_below_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = part("SESSION.md", "Sessions")
    [(program, said)] = re.findall(r"```python\n(.*?)```\n```text\n(.*?)```", text, re.DOTALL)
    exec(compile(program, "SESSION.md", "exec"), {})
    assert capsys.readouterr().out == said


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_page_lists_every_method_of_a_session_with_its_parameters() -> None:
    text = part("SESSION.md", "Sessions")
    named = set(re.findall(r"`(\w+)", text))
    assert public(Session) - named == set()
    for verb in (Session.put, Session.get, Session.publish, Session.subscribe):
        parameters = [p.name for p in inspect.signature(verb).parameters.values()]
        described = [row for row in text.splitlines() if f"`{verb.__name__}(" in row]
        assert len(described) == 1
        like_put = set(inspect.signature(Session.put).parameters) if "as `put`" in text else set()
        known = set(re.findall(r"\w+", described[0])) | like_put
        assert set(parameters) - known - {"self"} == set(), verb


def test_the_page_lists_what_a_message_has() -> None:
    text = part("SESSION.md", "Sessions")
    named = set(re.findall(r"`(\w+)`", text))
    assert public(Message) - named == set()
