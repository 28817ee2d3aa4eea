"""Which characters are made visible, and how."""

from __future__ import annotations

import pytest

from eno.characters import visible
from eno.errors import SextonError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("tombstones – 3 of Größe ✓ 漢字", "tombstones – 3 of Größe ✓ 漢字", id="what can be read stays"),
        pytest.param("\x1b]0;title\x07\x1b[2J", r"\x1b]0;title\x07\x1b[2J", id="terminal escapes"),
        pytest.param("\x9b31m\x85\x7f", r"\x9b31m\x85\x7f", id="controls beyond ASCII"),
        pytest.param("a\r\nb\tc", r"a\r\nb\tc", id="line breaks"),
        pytest.param("\u2028\u2029", r"\u2028\u2029", id="separators of lines"),
        pytest.param("\u202egnp.exe\u2066\u200b", r"\u202egnp.exe\u2066\u200b", id="formats"),
        pytest.param("\U000e0041", r"\U000e0041", id="tags"),
        pytest.param("\ud800", r"\ud800", id="a lone surrogate"),
        pytest.param("\ue000\uffff", r"\ue000\uffff", id="private and unassigned"),
        pytest.param("a\u00a0b\u3000", r"a\xa0b\u3000", id="blanks that are none"),
        pytest.param(r"\x1b", r"\x1b", id="a backslash"),
    ],
)
def test_what_cannot_be_read_becomes_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_an_error_is_one_line_whatever_is_in_it() -> None:
    bad = "\x1b[2J\r\nsexton: all is well\u2028\u202e"
    line = str(SextonError(bad, where=bad, hint=bad, detail=bad))
    assert line.isprintable()
    assert line.startswith(r"\x1b[2J sexton: all is well \u202e: ")
