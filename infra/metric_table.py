"""Write the table of metrics into docs/glossary.md; `--check` only compares."""

import re
import sys
from pathlib import Path

from services.contracts.metric_terms import METRIC_TERMS, PREFIXES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "glossary.md"
MARK = "<!-- metrics -->"
_TABLE = re.compile(f"{MARK}.*?{MARK}", re.DOTALL)


def table() -> str:
    """The metrics by group, as a Markdown table, and the prefixes of their names."""
    lines = ["| metric | group | meaning | unit | usual |", "|---|---|---|---|---|"]
    lines += [
        f"| `{term.name}` | {term.group} | {term.meaning}. | {term.unit} | {term.usual} |"
        for term in METRIC_TERMS
    ]
    prefixes = "; ".join(f"`{prefix}`: {meaning}" for prefix, meaning in PREFIXES.items())
    return "\n".join([*lines, "", f"Prefixes of these names: {prefixes}."])


def main() -> int:
    """Update the page, or with --check return 1 when it is out of date."""
    text = PAGE.read_text()
    updated = _TABLE.sub(lambda _: f"{MARK}\n{table()}\n{MARK}", text)
    if "--check" in sys.argv[1:]:
        return int(updated != text)
    PAGE.write_text(updated)
    return 0


if __name__ == "__main__":
    sys.exit(main())
