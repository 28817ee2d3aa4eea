"""The documented settings are those that there are."""

from __future__ import annotations

from pathlib import Path

from runtime.settings import reference

SETTINGS = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_settings_reference_is_up_to_date() -> None:
    assert SETTINGS.read_text(encoding="utf-8").endswith(reference())
