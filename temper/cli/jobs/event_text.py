"""Events of a job as lines of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temper.cli.units import clock, number

if TYPE_CHECKING:
    from rich.text import Text

    from services.contracts.jobs import Event


LEVEL_STYLES = {"info": "", "warn": "yellow", "error": "red"}


SHORT_NAMES = {"learning_rate": "lr", "tokens_per_second": "tokens/s"}


FIRST_METRICS = ("loss", "reward", "learning_rate", "lr", "tokens_per_second")


def event_line(event: Event) -> Text:
    """Return an event as a log line."""
    from rich.text import Text

    metrics = metrics_text(event) if event.type == "metrics" else ""
    step = (event.data or {}).get("step", "")
    text = f"Step {step}  {metrics}" if metrics else event.message
    return Text.assemble(
        (f"{clock(event.created_at)}  ", "dim"),
        (text, LEVEL_STYLES[event.level]),
    )


def metrics_text(event: Event) -> str:
    """Return the first four metrics of an event, the usual ones first."""
    metrics = {
        name: value
        for name, value in (event.data or {}).items()
        if name != "step" and isinstance(value, int | float)
    }
    ordered = [name for name in FIRST_METRICS if name in metrics]
    ordered += [name for name in metrics if name not in ordered]
    return "  ".join(
        f"{SHORT_NAMES.get(name, name)} {number(metrics[name])}" for name in ordered[:4]
    )
