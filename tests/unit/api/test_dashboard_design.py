"""The dashboard's design tokens: contrasts in each color scheme, and their documentation."""

import re
from pathlib import Path

import pytest

from services.api.dashboard.assets import STATIC

TOKENS = (STATIC / "style" / "tokens.css").read_text()
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "dashboard-design.md"
PAIR = re.compile(r"(--[\w-]+): light-dark\((#\w+), (#\w+)\)")
READ = ("--text", "--quiet", "--accent", "--good", "--bad", "--warn")
AA, AAA, GRAPHICS = 4.5, 7.0, 3.0


def colors(scheme: int, *, more: bool) -> dict[str, str]:
    """The colors of light (0) or dark (1), with more contrast or not."""
    normal, _, contrast = TOKENS.partition("@media (prefers-contrast: more)")
    found = {name: pair[scheme] for name, *pair in PAIR.findall(normal)}
    if more:
        found |= {name: pair[scheme] for name, *pair in PAIR.findall(contrast)}
    return found


def luminance(color: str) -> float:
    """The relative luminance of a color (WCAG 2.2)."""
    digits = color[1:] if len(color) == 7 else "".join(2 * each for each in color[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
@pytest.mark.parametrize("more", [False, True])
def test_texts_and_curves_stand_out_from_their_backgrounds(scheme: int, more: bool) -> None:
    found = colors(scheme, more=more)
    least = AAA if more else AA
    for name in READ:
        for behind in ("--page", "--raised"):
            assert contrast(found[name], found[behind]) >= least, (name, behind)
    assert contrast(found["--on-accent"], found["--accent"]) >= least
    for number in range(1, 9):
        assert contrast(found[f"--run-{number}"], found["--page"]) >= GRAPHICS


def test_every_token_is_used_and_documented() -> None:
    names = set(re.findall(r"^  (--[\w-]+):", TOKENS, re.MULTILINE))
    runs = {name for name in names if name.startswith("--run-")}
    rules = "".join(path.read_text() for path in (STATIC / "style").glob("*.css"))
    unused = {name for name in names - runs if f"var({name})" not in rules}
    unknown = set(re.findall(r"var\((--[\w-]+)\)", rules)) - names - {"--part", "--heat"}
    documented = set(re.findall(r"`(--[\w-]+)`", DOCUMENT.read_text()))

    assert (unused, unknown, names - documented) == (set(), set(), set())
