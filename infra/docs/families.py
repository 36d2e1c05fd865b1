"""Write the table of model families into docs/training/families.md.

    python infra/docs/families.py REPORT...

A REPORT is what tests/support/models/families.py found out about some of them.
"""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "training" / "families.md"
MARK = "<!-- families -->"
_TABLE = re.compile(f"{MARK}.*?{MARK}", re.DOTALL)
TOLERANCE = 2e-5
"""Largest difference of a loss from transformers' own."""


ROUNDING = 1e-3
"""Largest difference of a log-probability in float32 from transformers' own."""

REASONS = {
    "Cohere2ForCausalLM": "windows of vLLM have one token more",
    "Cohere2MoeForCausalLM": "windows of vLLM have one token more",
    "HrmTextForCausalLM": "vLLM reads a prompt in both directions, training forward only",
}
"""Why the log-probabilities of some differ, as far as it is known."""


def table(families: Sequence[dict[str, Any]]) -> str:
    """A Markdown table, and how many of them train."""
    heads = ("architecture", "model type", "trains", "padded", "engine", "served on a CPU")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    trained = answered = 0
    for each in families:
        problem = _problem(each)
        trained += problem is None
        answered += each["served"]["error"] is None
        padded = "" if problem else each["padded"] or "no"
        names = f"`{each['architecture']}` | `{each['model_type']}`"
        engine = each["engine"] or "yes"
        served = _served(each["served"], REASONS.get(each["architecture"]))
        lines.append(f"| {names} | {problem or 'yes'} | {padded} | {engine} | {served} |")
    count = len(families)
    return "\n".join([*lines, "", f"{trained} of {count} train, {answered} are served on a CPU."])


def _served(result: dict[str, Any], reason: str | None) -> str:
    if result["error"]:
        return "no: " + str(result["error"]).replace("|", "\\|")
    if result["dtype"] != "float32":
        return f"yes, in {result['dtype']}"
    difference = result["difference"]
    if difference < ROUNDING:
        return "yes"
    return f"yes, but for {difference:.2g}" + (f": {reason}" if reason else "")


def _problem(family: dict[str, Any]) -> str | None:
    if family["error"]:
        return f"{family['phase']}: {family['error']}".replace("|", "\\|")
    differences = {
        "supervised": family["supervised_difference"],
        "online": family["online_difference"],
    }
    wrong = [f"{name} loss differs by {d:.1e}" for name, d in differences.items() if d > TOLERANCE]
    return ", ".join(wrong) or None


def main(reports: Sequence[str]) -> None:
    """Update the page."""
    found = [each for path in reports for each in json.loads(Path(path).read_bytes())]
    found.sort(key=lambda each: str(each["architecture"]))
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_TABLE.sub(lambda _: f"{MARK}\n{table(found)}\n{MARK}", text), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
