"""Processing times: durations of on_message as a constant, percentiles, or measured times."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from mayfly.lifetime.columns import Ints
from mayfly.pipeline.advise.settings import AdviseError, check_bounds

#: The column of a file that holds measured times.
COLUMN = "on_message_ms"
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")


class Durations(NamedTuple):
    """Times of on_message as quantiles: a share ``shares[n]`` takes at most ``at_ms[n]`` ms.

    Shares are from 0 to 1; between two shares the times increase linearly.
    """

    shares: tuple[float, ...]
    at_ms: tuple[int, ...]

    @property
    def longest_ms(self) -> int:
        """The longest on_message in ms."""
        return self.at_ms[-1]

    def drawn(self, count: int, seed: int) -> Ints:
        """Return a random time in ms for each of ``count`` messages, the same for the same seed."""
        return self.at(np.random.default_rng(seed).random(count))

    def at(self, shares: np.typing.NDArray[np.float64]) -> Ints:
        """Return for each share (0 to 1) the time in ms within which this share is done.

        A share is one of all messages. The times are rounded up.
        """
        return np.ceil(np.interp(shares, self.shares, self.at_ms)).astype(np.int64)


def always(on_message_ms: int) -> Durations:
    """Return a constant time in ms for every message; 0 is allowed.

    Raises AdviseError for a value out of range.
    """
    check_bounds(longest_on_message_ms=on_message_ms)
    return Durations((0.0, 1.0), (on_message_ms, on_message_ms))


def sampled(times_ms: Ints) -> Durations:
    """Return measured times in ms as quantiles.

    Raises AdviseError for an empty sample or a time out of range.
    """
    if not len(times_ms):
        raise AdviseError("there is no time to learn from")
    check_bounds(longest_on_message_ms=int(times_ms.min()))
    check_bounds(longest_on_message_ms=int(times_ms.max()))
    ordered = np.sort(times_ms)
    if len(ordered) == 1:
        return always(int(ordered[0]))
    return Durations(tuple(np.linspace(0, 1, len(ordered)).tolist()), tuple(ordered.tolist()))


def from_text(text: str, duration_ms: Callable[[str], int]) -> Durations:
    """Return the durations in a text such as ``15s`` or ``p50=2s,p99=9s,max=15s``.

    ``max`` is required with percentiles. ``duration_ms`` parses one time. Below the lowest
    percentile times increase linearly from 0. Raises AdviseError, which quotes the wrong part.
    """
    if "=" not in text:
        return always(duration_ms(text))
    points = {0.0: 0}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        share = _share(name, text)
        if share in points:
            raise AdviseError(f"{text!r} says {name} twice")
        points[share] = duration_ms(value)
        check_bounds(longest_on_message_ms=points[share])
    if 1.0 not in points:
        raise AdviseError(f"{text!r} has no max: the longest decides what is safe")
    shares, at_ms = zip(*sorted(points.items()), strict=True)
    if list(at_ms) != sorted(at_ms):
        raise AdviseError(f"{text!r} does not rise: a higher percentile cannot be shorter")
    return Durations(shares, at_ms)


def from_file(file: Path) -> Durations:
    """Return the measured times in column on_message_ms of a CSV file, as quantiles.

    Raises AdviseError for a wrong file or time, and OSError when the file cannot be read.
    """
    try:
        with pyarrow.csv.open_csv(file) as reader:
            if COLUMN not in reader.schema.names:
                has = ", ".join(reader.schema.names)
                raise AdviseError(f"{file} has no column {COLUMN!r}; it has {has}")
        options = pyarrow.csv.ConvertOptions(
            include_columns=[COLUMN], column_types={COLUMN: pa.int64()}
        )
        column = pyarrow.csv.read_csv(file, convert_options=options)[COLUMN]
    except pa.ArrowInvalid as error:
        raise AdviseError(f"{file}: {str(error).partition(chr(10))[0]}") from error
    if column.null_count:
        raise AdviseError(f"{file}: column {COLUMN!r} is empty in {column.null_count} rows")
    try:
        return sampled(column.to_numpy())
    except AdviseError as error:
        raise AdviseError(f"{file}: column {COLUMN!r}: {error}") from error


def _share(name: str, text: str) -> float:
    """Return the share (0 to 1) that a name such as ``p95`` or ``max`` stands for.

    Raises AdviseError, which quotes ``text``, for another name.
    """
    if name == "max":
        return 1.0
    found = _PERCENTILE.fullmatch(name)
    if found is None or not float(found[1]):
        raise AdviseError(
            f"{text!r}: {name!r} is not p1 to p99 or max, as in p50=2s,p99=9s,max=15s"
        )
    return float(found[1]) / 100
