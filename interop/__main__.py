"""Run the tests of clients in other languages: ``python -m interop [--smoke] [client ...]``.

Packages are fetched while the tests of the clients before run. Where all clients ran and no test
has failed, the tables in docs/AMQP.md are written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from time import monotonic

from interop import tables
from interop.clients import CLIENTS, Ran, prepared, ran, smoked
from interop.results import CANNOT, PASSED
from interop.serving import NotStarted, served


def main(arguments: list[str]) -> int:
    """Run all clients, or those named; return 1 when a test has failed."""
    is_smoke = "--smoke" in arguments
    names = [name for name in arguments if name != "--smoke"] or list(CLIENTS)
    unknown = set(names) - set(CLIENTS)
    if unknown:
        print(f"interop: {', '.join(sorted(unknown))}: no client; there are {', '.join(CLIENTS)}")
        return 2
    if find_spec("proton") is None:
        print("interop: skipped, python-qpid-proton is not built here")
        return 0
    found: dict[str, Ran] = {}
    try:
        with served() as environment:
            runs = _smokes(names, environment) if is_smoke else _runs(names, environment)
            begin = monotonic()
            for name in names:
                # Said before it begins, so that a log shows which client is at work.
                print(f"interop {name}: ", end="", flush=True)
                found[name] = next(runs)
                print(_said(found[name], monotonic() - begin), flush=True)
                begin = monotonic()
    except NotStarted:
        print("interop: a server has not started")
        return 1
    if any(one.has_failed for one in found.values()):
        return 1
    if not is_smoke and set(found) == set(CLIENTS) and not any(r.skipped for r in found.values()):
        tables.write({name: one.results for name, one in found.items()})
    return 0


def _smokes(names: Sequence[str], environment: Mapping[str, str]) -> Iterator[Ran]:
    return (smoked(name, environment) for name in names)


def _runs(names: Sequence[str], environment: Mapping[str, str]) -> Iterator[Ran]:
    with ThreadPoolExecutor(len(names)) as pool:
        reasons = [pool.submit(prepared, name, environment) for name in names]
        for name, reason in zip(names, reasons, strict=True):
            skipped = reason.result()
            yield Ran([], skipped) if skipped else ran(name, environment)


def _said(one: Ran, seconds: float) -> str:
    if one.skipped:
        return f"skipped, {one.skipped}"
    if one.has_failed:
        return f"FAILED\n{one.output}"
    passed, cannot = (
        sum(result.outcome == outcome for result in one.results) for outcome in (PASSED, CANNOT)
    )
    more = f", {cannot} that it cannot do" if cannot else ""
    return f"{passed} passed{more} in {seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
