"""Rows that the library leaves without a token to learn: their loss is NaN, or nothing. They are
those of its own templates after truncation, and texts of one token; rows of the model's own
template are checked when they are prepared."""

from collections.abc import Callable, Mapping
from typing import Any

from services.contracts.llamafactory.names import Stage
from services.trainer.errors import TrainingFailure
from services.trainer.offline.generation import IGNORED
from services.trainer.offline.library.internals import llamafactory_module


def leave_out_untrained(stage: Stage, report: Callable[[str], None]) -> None:
    """Make a stage of LLaMA-Factory drop such rows, and pairs whose answers are equal after
    truncation; ``report`` gets a sentence with their number. Raises TrainingFailure while training
    if no row is left."""
    workflow: Any = llamafactory_module(f"train.{stage.value}.workflow")
    get_dataset = workflow.get_dataset

    def filtered(*args: Any, **kwargs: Any) -> dict[str, Any]:
        module = get_dataset(*args, **kwargs)
        return {name: _filtered(each, report) for name, each in module.items()}

    workflow.get_dataset = filtered


def _filtered(rows: Any, report: Callable[[str], None]) -> Any:
    if isinstance(rows, dict):
        return {name: _filtered(each, report) for name, each in rows.items()}
    if rows is None or not hasattr(rows, "__len__"):
        return rows
    kept = rows.filter(is_trained)
    if len(kept) == len(rows):
        return rows
    if not len(kept):
        raise TrainingFailure(
            f"none of {len(rows):,} rows has a token to learn within max_seq_length",
            code="bad_data",
        )
    report(
        f"{len(rows) - len(kept):,} of {len(rows):,} rows are left out: within max_seq_length they "
        "have no token to learn, or two equal answers"
    )
    return kept


def is_trained(row: Mapping[str, Any]) -> bool:
    """Whether a tokenized row has a token with a loss or, as a pair, answers that differ."""
    if "chosen_labels" in row:
        pair = (row["chosen_labels"], row["rejected_labels"])
        return pair[0] != pair[1] and all(map(_has_loss, pair))
    return _has_loss(row["labels"] if "labels" in row else row["input_ids"])


def _has_loss(labels: Any) -> bool:
    """Whether any token has one; the first has no context in which it could be learned."""
    return any(label != IGNORED for label in labels[1:])
