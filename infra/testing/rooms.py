"""Print how much of each room the tests executed: ``python infra/testing/rooms.py REPORT``.

REPORT is the JSON report of coverage.py. Children run outside of it: rooms whose code runs with the
Python of a runtime, or in services that tests start, show less than their tests execute.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple


class Lines(NamedTuple):
    """Executable lines, and those of them that ran."""

    all: int
    run: int


def rooms(report: Mapping[str, Any]) -> dict[str, Lines]:
    """The lines of each folder of services and temper that has any, and of files beside them."""
    found: dict[str, Lines] = defaultdict(lambda: Lines(0, 0))
    for file, content in report["files"].items():
        top, *folders = PurePosixPath(file).parent.parts
        room = f"{top}/{folders[0]}" if folders else top
        counted, summary = found[room], content["summary"]
        found[room] = Lines(
            counted.all + summary["num_statements"], counted.run + summary["covered_lines"]
        )
    return {room: lines for room, lines in sorted(found.items()) if lines.all}


def table(found: Mapping[str, Lines]) -> Iterator[str]:
    """The rooms as lines of text, and their sum."""
    total = Lines(
        sum(each.all for each in found.values()), sum(each.run for each in found.values())
    )
    width = max(map(len, (*found, "all")))
    yield f"{'room':<{width}}  lines  executed"
    for room, lines in {**found, "all": total}.items():
        yield f"{room:<{width}} {lines.all:>6,} {lines.run / lines.all:>8.1%}"


def main() -> None:
    """Print the table."""
    for line in table(rooms(json.loads(Path(sys.argv[1]).read_text()))):
        print(line)


if __name__ == "__main__":
    main()
