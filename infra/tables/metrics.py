"""The metrics that jobs report, for docs/glossary.md."""

from services.metrics.metric_terms import METRIC_TERMS, PREFIXES


def table() -> str:
    """The metrics by group, as a Markdown table, and the prefixes of their names."""
    lines = ["| metric | group | meaning | unit | usual |", "|---|---|---|---|---|"]
    lines += [
        f"| `{term.name}` | {term.group} | {term.meaning}. | {term.unit} | {term.usual} |"
        for term in METRIC_TERMS
    ]
    prefixes = "; ".join(f"`{prefix}`: {meaning}" for prefix, meaning in PREFIXES.items())
    return "\n".join([*lines, "", f"Prefixes of these names: {prefixes}."])
