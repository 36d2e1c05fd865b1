"""The trainers of the stages whose loss is a mean over tokens: sft and pt. Written for
LLaMA-Factory 0.9.5."""

from typing import Any

import torch

from services.trainer.offline.generation import IGNORED
from services.trainer.offline.library.sequence_trainer import in_sequences, predicted_labels


def text_trainer(original: Any) -> Any:
    """A trainer of stage pt."""
    return _token_trainer(original, has_accuracy=False)


def supervised_trainer(original: Any) -> Any:
    """A trainer of stage sft that also logs ``accuracy``: of the tokens trained since the last log,
    or evaluated, over all processes, the share that the model itself would have chosen.

    The original gives models the labels with ASFT too, so that those whose logits never exist whole
    answer with the plain loss; and it returns nothing but the loss, which no evaluation can take.
    """
    return _token_trainer(original, has_accuracy=True)


def _token_trainer(original: Any, *, has_accuracy: bool) -> Any:
    base: Any = in_sequences(original, ("chosen", "tokens"), _accuracy)

    class TokenTrainer(base):  # type: ignore[misc]  # a class made at run time
        def compute_loss(
            self,
            model: Any,
            inputs: Any,
            return_outputs: bool = False,
            num_items_in_batch: Any = None,
            **kwargs: Any,
        ) -> Any:
            if not model.training:
                num_items_in_batch = None  # so that it is the mean of this batch
            inputs = predicted_labels(inputs)
            labels = inputs["labels"][:, 1:]
            count = int((labels != IGNORED).sum())
            if self.finetuning_args.use_asft_loss:
                loss, outputs = self._anchored(model, inputs, count, num_items_in_batch)
            else:
                loss, outputs = super().compute_loss(
                    model, inputs, True, num_items_in_batch=num_items_in_batch, **kwargs
                )
            sums = {}
            predicted = self._predicted(outputs) if model.training or self._asks() else None
            if predicted is not None:
                chosen = (predicted[:, :-1] == labels) & (labels != IGNORED)
                sums = {"chosen": float(chosen.sum()), "tokens": float(count)}
            self.add_to_metrics(model, loss, count, **sums)
            return (loss, outputs) if return_outputs else loss

        def _anchored(self, model: Any, inputs: Any, count: int, all_items: Any) -> Any:
            """The loss of ASFT, a mean over the ``count`` labels or its share of that over
            ``all_items`` of the step, and what the model computed."""
            rows = {name: value for name, value in inputs.items() if name != "labels"}
            with torch.no_grad():
                reference = self.ref_model(**rows).logits
            outputs = model(**rows)
            loss = self.compute_loss_func(outputs, inputs["labels"], reference)
            if all_items is not None:
                across = self.args.average_tokens_across_devices
                loss = loss * count / all_items * (self.accelerator.num_processes if across else 1)
            return loss, outputs

        def _asks(self) -> bool:
            """Whether evaluations have an accuracy."""
            return bool(
                self.finetuning_args.compute_accuracy and not self.args.prediction_loss_only
            )

        def _predicted(self, outputs: Any) -> torch.Tensor | None:
            """The most probable token of each place, (rows, tokens), where an output tells it."""
            if not has_accuracy:
                return None
            if (logits := getattr(outputs, "logits", None)) is not None:
                most_probable: torch.Tensor = logits.detach().argmax(-1)
                return most_probable
            return getattr(outputs, "predicted", None)

    return TokenTrainer


def _accuracy(total: dict[str, float]) -> dict[str, float]:
    return {"accuracy": total["chosen"] / total["tokens"]} if total["tokens"] else {}
