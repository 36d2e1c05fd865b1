"""Draw sequence diagrams: ``python infra/docs/sequence.py [--check]``.

Renders ``docs/**/*.seq`` to SVG. A source has one statement per line: ``actors A | B | C``,
``A -> B: text`` for a message, ``B --> A: text`` for a reply, ``A: text`` for work inside one
process, and ``== text`` for a section.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
COLUMN = 190
ROW = 34
TOP = 70
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2933}"
    ".actor{font-weight:600}.section{font-weight:600;fill:#52606d}"
    ".life{stroke:#cbd2d9}.call{stroke:#1f2933}.reply{stroke:#1f2933;stroke-dasharray:5 4}"
    ".box{fill:#e6f0fa;stroke:#7b98b2}.work{fill:#f5f7fa;stroke:#cbd2d9}.band{fill:#f0f4f8}"
)


@dataclass(frozen=True)
class Step:
    """One row: a message between two actors, work of one (no target), or a section (neither)."""

    text: str
    source: str = ""
    target: str = ""
    is_reply: bool = False


def parse(text: str) -> tuple[list[str], list[Step]]:
    """Return the actors and the steps of a source; raises ValueError for any other line."""
    actors: list[str] = []
    steps: list[Step] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("actors "):
            actors = [name.strip() for name in line.removeprefix("actors ").split("|")]
            continue
        if line.startswith("== "):
            steps.append(Step(line.removeprefix("== ")))
            continue
        head, colon, said = line.partition(": ")
        source, arrow, target = head.partition(" -")
        step = Step(said, source, target.lstrip("->").strip(), target.startswith("->"))
        if (
            not colon
            or not {source, step.target or source} <= set(actors)
            or bool(arrow) != bool(step.target)
        ):
            raise ValueError(f"not a statement: {line}")
        steps.append(step)
    return actors, steps


def svg(actors: Sequence[str], steps: Sequence[Step]) -> str:
    """Return the diagram as SVG."""
    width, height = COLUMN * len(actors) + 20, TOP + ROW * len(steps) + 20
    middle = {name: 10 + COLUMN * place + COLUMN // 2 for place, name in enumerate(actors)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        f' width="{width}" height="{height}">',
        f"<style>{STYLE}</style>",
        '<defs><marker id="tip" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#1f2933"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for name, x in middle.items():
        parts.append(f'<line class="life" x1="{x}" y1="46" x2="{x}" y2="{height - 10}"/>')
        parts.append(f'<rect class="box" x="{x - 80}" y="16" width="160" height="30" rx="5"/>')
        parts.append(
            f'<text class="actor" x="{x}" y="36" text-anchor="middle">{escape(name)}</text>'
        )
    for row, step in enumerate(steps):
        parts += _row(step, TOP + ROW * row + 10, middle, width)
    return "\n".join([*parts, "</svg>", ""])


def _row(step: Step, y: int, middle: dict[str, int], width: int) -> Iterator[str]:
    text = escape(step.text)
    if not step.source:
        yield f'<rect class="band" x="0" y="{y - 12}" width="{width}" height="24"/>'
        yield f'<text class="section" x="14" y="{y + 5}">{text}</text>'
        return
    x = middle[step.source]
    if not step.target:
        half = min(4 * len(step.text) + 10, x - 4, width - x - 4)
        box = f'x="{x - half}" y="{y - 13}" width="{2 * half}" height="24" rx="4"'
        yield f'<rect class="work" {box}/>'
        yield f'<text x="{x}" y="{y + 4}" text-anchor="middle">{text}</text>'
        return
    end = middle[step.target]
    center = (x + end) // 2
    kind = "reply" if step.is_reply else "call"
    line = f'x1="{x}" y1="{y + 8}" x2="{end}" y2="{y + 8}"'
    yield f'<line class="{kind}" {line} marker-end="url(#tip)"/>'
    yield (
        f'<text x="{center}" y="{y + 2}" text-anchor="middle" paint-order="stroke" '
        f'stroke="#ffffff" stroke-width="4">{text}</text>'
    )


def main(arguments: Sequence[str]) -> int:
    """Write every diagram; with --check return 1 if one is out of date."""
    stale = 0
    for source in sorted(DOCS.rglob("*.seq")):
        target = source.with_suffix(".svg")
        drawn = svg(*parse(source.read_text(encoding="utf-8")))
        if "--check" not in arguments:
            target.write_text(drawn, encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != drawn:
            print(f"{target.relative_to(DOCS)} is out of date: run infra/docs/sequence.py")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
