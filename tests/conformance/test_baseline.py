"""The page on conformance says what the lists say."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.baseline import PRODUCT, UNSCORED, names

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "conformance.md"


def test_the_page_names_what_cannot_apply() -> None:
    text = " ".join(PAGE.read_text().split())
    for reason in (*PRODUCT, *UNSCORED):
        listed = ", ".join(f"`{name}`" for name in sorted(names({reason: (PRODUCT | UNSCORED)[reason]})))
        assert f"- {reason[0].upper()}{reason[1:]}: {listed}." in text, reason
