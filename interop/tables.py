"""The tables of docs/AMQP.md that say what each client can do, from the results of a run."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from interop.clients import CLIENTS, HERE
from interop.results import CANNOT, Result

PAGE: Final = HERE.parent / "docs" / "AMQP.md"
LINE_CHARACTERS: Final = 100
#: The first word of a test -> what a client that passes it can do.
ABILITIES: Final[Mapping[str, str]] = {
    "delay": "delayed messages come at their delivery time (D1)",
    "refusal": "a wrong delay, and a life shorter than the delay, are refused (D7)",
    "life": "the rest of a life arrives (E5)",
    "expiry": "expired messages do not come (E9)",
    "properties": "headers and properties arrive",
    "bodies": "bodies of every kind arrive",
    "drain": "an empty queue is reported at once",
    "outcomes": "released, modified and rejected messages",
    "transactions": "transactions",
    "selector": "selectors",
    "browser": "browsers",
    "durable": "durable subscriptions",
    "shared": "shared subscriptions",
    "temporary": "answers over temporary queues",
    "large": "messages of 1.5 MB, in frames",
    "errors": "errors have their own types",
}
_BEGIN, _END = "<!-- {}: written by make interop -->", "<!-- end of {} -->"


def write(found: Mapping[str, Sequence[Result]]) -> None:
    """Write the tables into the page, by the results of all clients; none of them has failed."""
    text = before = PAGE.read_text("utf-8")
    for name, lines in (("clients", _clients(found)), ("scenarios", _scenarios(found))):
        begin, end = _BEGIN.format(name), _END.format(name)
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = f"{head}{begin}\n\n{chr(10).join(lines)}\n\n{end}{tail}"
    if text != before:
        PAGE.write_text(text, "utf-8")
        print(f"interop: the tables of {PAGE.name} are new")


def scenario_names() -> list[str]:
    """Return the names of the scenarios, in the order of the file."""
    content = json.loads((HERE / "scenarios.json").read_text("utf-8"))
    return [scenario["name"] for scenario in content["scenarios"]]


def _columns(
    found: Mapping[str, Sequence[Result]],
) -> Iterator[tuple[str, dict[str, list[Result]]]]:
    """Yield each column with its results by their first word, or by the name of a scenario."""
    for name, client in CLIENTS.items():
        for word, title in client.shown.items():
            column: dict[str, list[Result]] = {}
            for result in found[name]:
                if result.name.split()[-1] == word or not word:
                    first = result.name.split()[0].rstrip(":")
                    key = first if first in scenario_names() else first.partition("_")[0]
                    column.setdefault(key, []).append(result)
            yield title, column


def _clients(found: Mapping[str, Sequence[Result]]) -> Iterator[str]:
    columns = list(_columns(found))
    yield _row("", *(title for title, _ in columns))
    yield _row(*["---"] * (len(columns) + 1))
    notes: list[str] = []
    for key, said in ABILITIES.items():
        cells = []
        for title, column in columns:
            tried = column.get(key, [])
            reasons = [one.reason for one in tried if one.outcome == CANNOT]
            notes += [f"* {title}, {said}: {reason}." for reason in reasons]
            cells.append("no" if reasons else "yes" if tried else "not tried")
        yield _row(said, *cells)
    if notes:
        yield ""
    for note in notes:
        yield from textwrap.wrap(note, LINE_CHARACTERS, subsequent_indent="  ")


def _scenarios(found: Mapping[str, Sequence[Result]]) -> Iterator[str]:
    names = scenario_names()
    columns = [(title, by) for title, by in _columns(found) if set(names) & set(by)]
    yield _row("rule", "scenario", *(title for title, _ in columns))
    yield _row(*["---"] * (len(columns) + 2))
    for name in names:
        rule, _, said = name.partition("_")
        cells = [
            ", ".join(sorted({one.name.split()[1] for one in column.get(name, [])}))
            for _, column in columns
        ]
        yield _row(rule, said.replace("_", " "), *cells)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
