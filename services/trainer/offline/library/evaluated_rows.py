"""Which rows of an evaluation's batches count: each row of the data once."""

from typing import Any

import torch


def counted_rows(accelerator: Any, rows: int) -> int:
    """How many of a batch's ``rows`` count, its first ones.

    The last batches of several processes are as long as the others: accelerate fills them up with
    rows of the first ones.
    """
    state = accelerator.gradient_state
    if not state.end_of_dataloader or state.remainder <= 0:
        return rows
    left: int = state.remainder - accelerator.process_index * rows
    return min(max(left, 0), rows)


def first_rows(batch: Any, count: int, parts: int) -> dict[str, Any]:
    """The first ``count`` rows of each of the equal ``parts`` of a batch, such as the preferred
    answers and the others."""
    rows = len(batch["input_ids"])

    def cut(name: str, value: Any) -> Any:
        if not torch.is_tensor(value):
            return value
        # Positions in several dimensions, as of models that see, are (dimensions, rows, tokens).
        axis = 1 if name == "position_ids" and value.dim() == 3 else 0
        if value.dim() <= axis or value.shape[axis] != rows:
            return value
        kept = value.unflatten(axis, (parts, -1)).narrow(axis + 1, 0, count)
        return kept.flatten(axis, axis + 1)

    return {name: cut(name, value) for name, value in batch.items()}
