"""Figures as text: rounded alike everywhere, with a verdict that follows from the aim."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from bench import table
from bench.figures import Aim, Bound, Curve, Line, Section


def line(ours: float = 10.0, theirs: float | None = None, aim: Aim | None = None, **fields: str) -> Line:
    return Line(**{"what": "something", "unit": "ms", "beside": "peer", **fields}, ours=ours, theirs=theirs, aim=aim)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(0, "0", id="nothing"),
        pytest.param(7, "7", id="a count has no decimals"),
        pytest.param(20_000, "20\u202f000", id="thousands are set apart"),
        pytest.param(1234.5, "1\u202f234", id="four digits before the point are enough"),
        pytest.param(12.34, "12.3", id="three significant digits above ten"),
        pytest.param(1.234, "1.23", id="three significant digits above one"),
        pytest.param(0.01234, "0.012", id="two significant digits below a tenth"),
    ],
)
def test_numbers_have_three_significant_digits(value: float, text: str) -> None:
    assert table.number(value) == text


@pytest.mark.parametrize(
    ("figure", "aim", "text"),
    [
        pytest.param(line(10.0), None, "", id="no aim, no verdict"),
        pytest.param(line(20.0), Aim(Bound.AT_MOST, 20), "≤ 20 ms ✓", id="exactly the limit is met"),
        pytest.param(line(20.1), Aim(Bound.AT_MOST, 20), "≤ 20 ms ✗", id="just above the limit is not"),
        pytest.param(line(9.0, 10.0), Aim(Bound.AT_LEAST, 1, of_ratio=True), "≥ 1.00 ✗", id="of the ratio"),
        pytest.param(line(9.0), Aim(Bound.AT_LEAST, 1, of_ratio=True), "≥ 1.00 ✗", id="no peer is no success"),
    ],
)
def test_the_verdict_follows_from_the_aim(figure: Line, aim: Aim | None, text: str) -> None:
    assert table.verdict(line(figure.ours, figure.theirs, aim)) == text


def test_a_ratio_is_ours_by_theirs() -> None:
    assert table.row(line(30.0, 10.0))[3] == "3.00"
    assert table.row(line(30.0))[3] == ""


def test_a_table_fits_eighty_columns_and_loses_no_figure() -> None:
    lines = [line(123_456.0, 98_765.0, Aim(Bound.AT_LEAST, 1, of_ratio=True), what="a rather long description of it")]
    console = Console(file=StringIO(), width=80, color_system=None)
    console.print(table.terminal(Section("key", "Title", lines, notes=["a note"])))
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for part in ("123\u202f456 ms", "98\u202f765 ms", "1.25", "≥ 1.00 ✓", "a note"):
        assert part in text


def test_markdown_shows_every_line_note_and_picture() -> None:
    curve = Curve("name", "A picture", "x", "y", {"ours": [(1, 2)]})
    text = table.markdown(Section("key", "Title", [line(1.0, 2.0, what="a|b")], [curve], ["A note."]))
    assert text.splitlines()[0] == "### Title"
    assert "| a&#124;b | 1.00 ms | peer: 2.00 ms | 0.50 |  |" in text
    assert "A note." in text
    assert "![A picture](images/bench-name.png)" in text
