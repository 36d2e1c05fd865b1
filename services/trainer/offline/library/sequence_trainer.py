"""What the trainers of all stages share: models that compute sequences, the count of tokens, and
metrics that no division into batches changes."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import pad

from services.contracts.errors import InvalidRequest
from services.models.capacity.training import WHOLE_LOGITS
from services.trainer.offline.generation import IGNORED
from services.trainer.offline.library.evaluated_rows import counted_rows, first_rows
from services.trainer.offline.library.metric_sums import MetricSums
from services.trainer.offline.library.score_forward import score_sequences
from services.trainer.offline.library.sequence_forward import compute_sequences


def in_sequences(
    original: Any,
    sums: tuple[str, ...] = (),
    means: Callable[[dict[str, float]], dict[str, float]] = lambda _: {},
    parts: int = 1,
) -> Any:
    """A trainer whose models compute without padding and without whole logits, and which logs
    ``real_token_share`` and the metrics that ``means`` makes of the stage's ``sums``. A batch is
    ``parts`` rows for each row of the data.

    The original counts tokens by adding up attention masks, which are no ones and zeros when rows
    are packed, and the loss of packed rows divides by labels that nothing predicts. Its evaluations
    average the means of batches, so that their size changes losses and metrics; here they are
    quotients of sums over all batches of all processes.
    """

    class SequenceTrainer(original):  # type: ignore[misc]  # transformers is untyped here
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._token_sums = MetricSums(("real", "computed"))
            self._metric_sums = MetricSums(("loss", "weight", *sums))
            self._counts = True
            # They are computed from the predictions for every token, of which the sums need none.
            kwargs |= {"compute_metrics": None, "preprocess_logits_for_metrics": None}
            self.padded = _prepare(
                kwargs["model"], kwargs.get("ref_model"), kwargs["args"], kwargs["finetuning_args"]
            )
            if self.padded and _neighbors_attend(kwargs.get("train_dataset")):
                raise InvalidRequest(
                    f"packing needs packed rows that are kept apart: {self.padded}",
                    param="llamafactory.packing",
                )
            super().__init__(*args, **kwargs)

        def _track_num_input_tokens(self, inputs: Any) -> None:
            read = read_tokens(inputs, self.processing_class.pad_token_id)
            real = float(read.sum())
            computed = float(read.numel()) if self.padded else real
            self._token_sums.add("train", real=real, computed=computed)
            super()._track_num_input_tokens({**inputs, "attention_mask": read})

        def _get_num_items_in_batch(self, batch_samples: Any, device: Any) -> Any:
            counted = [predicted_labels(each) for each in batch_samples]
            return super()._get_num_items_in_batch(counted, device)

        def add_to_metrics(self, model: Any, loss: Any, weight: float, **values: float) -> None:
            """Add a batch: its mean loss, over rows or tokens of this number, and the stage's sums.
            A batch of repeated rows does not count."""
            if model.training:
                self._metric_sums.add("train", **values)
            elif self._counts and weight:
                value = float(loss.detach()) * weight
                self._metric_sums.add("eval", loss=value, weight=weight, **values)

        def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            rows = len(inputs["input_ids"]) // parts
            count = counted_rows(self.accelerator, rows)
            self._counts = count > 0
            if count < rows:  # one stays: processes that share weights compute together
                inputs = first_rows(inputs, max(count, 1), parts)
            return super().prediction_step(model, inputs, *args, **kwargs)

        def evaluation_loop(
            self, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any
        ) -> Any:
            output = super().evaluation_loop(*args, metric_key_prefix=metric_key_prefix, **kwargs)
            total = self._metric_sums.take("eval", self.accelerator)
            found = means(total)
            if total["weight"]:
                found["loss"] = total["loss"] / total["weight"]
            output.metrics.update({f"{metric_key_prefix}_{name}": found[name] for name in found})
            return output

        def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
            if "loss" in logs:  # those of an evaluation and the final summary have other names
                total = self._token_sums.take("train", self.accelerator)
                if total["computed"]:
                    logs["real_token_share"] = total["real"] / total["computed"]
                logs |= means(self._metric_sums.take("train", self.accelerator))
            super().log(logs, *args, **kwargs)

    return SequenceTrainer


def _prepare(model: Any, reference: Any | None, *settings: Any) -> str | None:
    """Make a stage's models compute sequences; returns why they pad, if they do."""
    if hasattr(model, "v_head"):
        return score_sequences(model)
    if reference is not None:
        compute_sequences(reference)
    return compute_sequences(model) or _own_loss(model, *settings)


def _own_loss(model: Any, *settings: Any) -> str | None:
    """Why the library itself computes the loss, of padded rows and their whole logits."""
    if getattr(model.config, "output_router_logits", False):
        return "moe_aux_loss_coef adds a loss of whole rows"
    named = (name for name in WHOLE_LOGITS for each in settings if getattr(each, name, None))
    return next((f"{name} is a loss of whole rows" for name in named), None)


def _neighbors_attend(rows: Any) -> bool:
    """Whether rows are packed, with masks that keep their sequences apart in no other way."""
    columns = getattr(rows, "column_names", None) or []
    return "position_ids" in columns and "packing_params" not in columns


def predicted_labels(batch: Any) -> Any:
    """A batch whose labels leave out what begins a packed sequence: nothing predicts it."""
    positions, labels = batch.get("position_ids"), batch["labels"]
    if positions is None or positions.dim() != 2:
        return batch
    # Rows are padded to a multiple of a length, positions are not.
    begins = pad(positions, (0, labels.shape[1] - positions.shape[1])) == 0
    return {**batch, "labels": labels.masked_fill(begins, IGNORED)}


def read_tokens(inputs: Any, padding: int | None) -> torch.Tensor:
    """Which tokens of a batch are no padding, (rows, tokens).

    The mask of packed rows has the number of its row for each token, or is additive, (rows, 1,
    tokens, tokens), with zeros where a token reads another; the library may fill packed rows up
    with padding that is read.
    """
    mask, ids, labels = inputs["attention_mask"], inputs["input_ids"], inputs["labels"]
    if mask.dim() > 2:
        own = mask.diagonal(dim1=-2, dim2=-1)[:, 0]
        mask = own if own.dtype == torch.bool else own == 0
    used = (ids != padding) | (labels != IGNORED)
    behind = used.flip(-1).cumsum(-1).flip(-1) > 0  # a used token follows, or it is one
    return (mask != 0) & behind
