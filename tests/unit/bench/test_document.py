"""The generated part of the documentation is replaced, and nothing else of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import document
from bench.__main__ import DOCUMENT, IMAGES
from bench.document import BEGIN, END, rewrite
from bench.figures import Line, Section
from bench.machine import Machine

MACHINE = Machine(2, "a processor", "3.11.7", "Linux", 0.25, "2026-03-01", quick=False)


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    assert rewrite(f"before\n{BEGIN}\nold\n{END}\nafter\n", "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"


def test_rewriting_twice_changes_nothing_more() -> None:
    once = rewrite(f"{BEGIN}{END}", "new")
    assert rewrite(once, "new") == once


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("nothing", id="no marks"),
        pytest.param(f"{BEGIN} only", id="no end"),
        pytest.param(f"{END} before {BEGIN}", id="the wrong order"),
        pytest.param(f"{BEGIN}{BEGIN}{END}", id="two beginnings"),
        pytest.param(f"{BEGIN}{END}{END}", id="two ends"),
    ],
)
def test_a_document_without_its_marks_is_not_touched(text: str) -> None:
    with pytest.raises(ValueError, match="needs one"):
        rewrite(text, "new")


def test_the_block_says_what_it_was_measured_on(tmp_path: Path) -> None:
    path = tmp_path / "performance.md"
    path.write_text(f"# Title\n{BEGIN}\n{END}\n", encoding="utf-8")
    document.update(path, MACHINE, [Section("key", "A part", [Line("it", 1.0, "s")])])
    text = path.read_text(encoding="utf-8")
    assert "2 CPUs (a processor), Linux, Python 3.11.7, load average 0.25" in text
    assert "### A part" in text


def test_the_documentation_has_its_marks_and_its_pictures() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert rewrite(text, "new") != text
    shown = {part.partition(")")[0] for part in text.split("](images/")[1:]}
    assert shown
    assert {name for name in shown if not (IMAGES / name).is_file()} == set()
