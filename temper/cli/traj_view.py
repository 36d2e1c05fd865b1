"""How trajectories look in a list."""

from rich.text import Text

from services.contracts.rollouts import TrajectorySummary
from temper.cli.formats import duration, figure

SHOWN_CHARACTERS = 48
TRAJECTORY_COLUMNS = (
    *("ID", "REWARD", "ENDED", "TURNS", "CALLS", "ERRORS", "TOKENS", "TOOK"),
    *("QUESTION", "ANSWER"),
)


def trajectory_row(summary: TrajectorySummary) -> tuple[str | Text, ...]:
    """Return the cells of a trajectory in a list."""
    return (
        summary.id,
        _reward(summary),
        summary.finish_reason.value,
        str(summary.turns),
        str(summary.tool_calls),
        Text(str(summary.errors), style="red" if summary.errors else ""),
        f"{summary.response_tokens:,}",
        duration(summary.seconds) if summary.seconds >= 1 else f"{summary.seconds * 1000:.0f}ms",
        _one_line(summary.question),
        _one_line(summary.answer, tail=True),
    )


def _reward(summary: TrajectorySummary) -> str | Text:
    if summary.reward is not None:
        return figure(summary.reward)
    return Text("failed", style="red") if summary.reward_error else ""


def _one_line(text: str, *, tail: bool = False) -> str:
    """The head or tail of a text, on one line and without what would command a terminal."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(words) <= SHOWN_CHARACTERS:
        return words
    kept = SHOWN_CHARACTERS - 1
    return f"…{words[-kept:]}" if tail else f"{words[:kept]}…"
