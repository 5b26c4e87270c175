"""The output of the test runners of several languages, as results by the name of the test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

PASSED, FAILED, CANNOT = "passed", "failed", "cannot"
_TAP = re.compile(r"\s*(not )?ok \d+ - (.*?)(?: # (?:SKIP|skip) ?(.*))?")
_CARGO = re.compile(r"test (?:.*::)?(\w+) \.\.\. (ok|FAILED|ignored)(?:, (.*))?")
_GO_SKIP = re.compile(r"\s*\S+\.go:\d+: (.*)")


class Result(NamedTuple):
    """How a test ended; a client that cannot do something skips its test, and says why."""

    name: str
    outcome: str
    reason: str = ""


def of_junit(folder: Path) -> list[Result]:
    """Read the reports in XML of a folder, as Surefire and pytest write them."""
    found = []
    for file in sorted(folder.glob("TEST-*.xml")):
        for case in ElementTree.parse(file).iter("testcase"):
            # A dynamic test comes behind the method that made it.
            name = case.get("name", "").rpartition("() ")[2].removesuffix("()")
            name = name.removeprefix("test_")
            skipped = case.find("skipped")
            if skipped is not None:
                reason = (skipped.get("message") or "").removeprefix("Skipped: ")
                found.append(Result(name, CANNOT, reason))
            else:
                is_bad = case.find("failure") is not None or case.find("error") is not None
                found.append(Result(name, FAILED if is_bad else PASSED))
    return found


def of_tap(output: str) -> list[Result]:
    """Read the lines of TAP, as node:test prints them."""
    matches = (_TAP.fullmatch(line) for line in output.splitlines())
    return [
        Result(m[2], FAILED if m[1] else PASSED if m[3] is None else CANNOT, m[3] or "")
        for m in matches
        if m is not None
    ]


def of_cargo(output: str) -> list[Result]:
    """Read the lines of cargo test."""
    outcomes = {"ok": PASSED, "FAILED": FAILED, "ignored": CANNOT}
    matches = (_CARGO.fullmatch(line) for line in output.splitlines())
    return [Result(m[1], outcomes[m[2]], m[3] or "") for m in matches if m is not None]


def of_go(output: str) -> list[Result]:
    """Read the events of ``go test -json``; tests that have subtests are left out."""
    outcomes = {"pass": PASSED, "fail": FAILED, "skip": CANNOT}
    said: dict[str, str] = {}
    found = []
    for event in _events(output):
        test, action = event.get("Test", ""), event.get("Action", "")
        if action == "output" and (match := _GO_SKIP.match(event["Output"])):
            said[test] = match[1].strip()
        elif "/" in test and action in outcomes:
            reason = said.get(test, "") if action == "skip" else ""
            found.append(Result(test.partition("/")[2], outcomes[action], reason))
    return found


def _events(output: str) -> Iterator[dict[str, str]]:
    lines: Iterable[str] = output.splitlines()
    return (json.loads(line) for line in lines if line.startswith("{"))
