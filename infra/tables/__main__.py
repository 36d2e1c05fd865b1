"""Write the generated parts of the documentation; ``--check`` only names the outdated pages.

A part stands between two equal comments of its page.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from infra.tables import client, commands, metrics, rest, settings

DOCS = Path(__file__).resolve().parents[2] / "docs"


class Part(NamedTuple):
    """A generated part: its page below docs, the name in its comments, and what writes it."""

    page: str
    name: str
    text: Callable[[], str]


PARTS = (
    Part("operations/settings.md", "settings", settings.table),
    Part("operations/settings.md", "settings of the command line", settings.client_table),
    Part("glossary.md", "metrics", metrics.table),
    Part("rest.md", "routes", rest.reference),
    Part("command-line.md", "commands", commands.reference),
    Part("client.md", "methods", client.reference),
)


def updated(page: str, part: Part) -> str:
    """A page's text with the present part between its comments.

    Raises:
        ValueError: the page does not have the two comments.
    """
    comment = f"<!-- {part.name} -->"
    before, _, after = page.split(comment)
    return f"{before}{comment}\n\n{part.text()}\n\n{comment}{after}"


def main() -> int:
    """Update the pages, or with --check return 1 when one is out of date."""
    is_check = "--check" in sys.argv[1:]
    outdated = 0
    for part in PARTS:
        path = DOCS / part.page
        text = path.read_text()
        new = updated(text, part)
        if new == text:
            continue
        if is_check:
            print(f"docs/{part.page}: run `python -m infra.tables`")
            outdated = 1
        else:
            path.write_text(new)
    return outdated


if __name__ == "__main__":
    sys.exit(main())
