"""The trainers of LLaMA-Factory's stages, with fixes. Written for LLaMA-Factory 0.9.5 with TRL
0.24. Each class says what the original does.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, set_peft_model_state_dict
from safetensors.torch import load_file

from services.contracts.llamafactory.names import Stage
from services.core.artifacts import VALUE_HEAD
from services.trainer.offline.library.answer_tokens import AnswerTokens
from services.trainer.offline.library.internals import llamafactory_module
from services.trainer.offline.library.sequence_trainer import in_sequences
from services.trainer.offline.library.token_trainers import supervised_trainer, text_trainer

ADAPTER_WEIGHTS = "adapter_model.safetensors"


def install_trainers(stage: Stage, resume_from: str | None = None) -> None:
    """Make a stage of LLaMA-Factory use the corrected trainer, if it has one.

    ``resume_from`` is the checkpoint to resume from.
    """
    workflow: Any = llamafactory_module(f"train.{stage.value}.workflow")
    match stage:
        case Stage.SFT:
            workflow.CustomSeq2SeqTrainer = supervised_trainer(workflow.CustomSeq2SeqTrainer)
        case Stage.DPO:
            # Its workflow imports the class when it runs.
            module: Any = llamafactory_module("train.dpo.trainer")
            module.CustomDPOTrainer = dpo_trainer()
        case Stage.KTO:
            workflow.CustomKTOTrainer = kto_trainer()
        case Stage.RM:
            workflow.PairwiseTrainer = reward_model_trainer(resume_from)
            workflow.load_model = _with_fixed_bias(workflow.load_model)
        case Stage.PT:
            workflow.CustomTrainer = text_trainer(workflow.CustomTrainer)


_PAIR_SUMS = (
    *("rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins"),
    *("logps/chosen", "logps/rejected", "logits/chosen", "logits/rejected"),
)
_ORPO_SUMS = ("sft_loss", "odds_ratio_loss")


def dpo_trainer() -> Any:
    """The trainer of stage dpo, with the loss that was asked for and metrics over all pairs.

    The original calls TRL's loss without its type, so that hinge and ipo train with sigmoid,
    averages metrics over batches, and gives those of all validation files one name.
    """
    original: Any = llamafactory_module("train.dpo.trainer").CustomDPOTrainer
    sums = ("pairs", *_PAIR_SUMS, *_ORPO_SUMS)
    trainer: Any = in_sequences(original, sums, _means_by_pair, parts=2)

    class DpoTrainer(trainer):  # type: ignore[misc]  # a class made at run time
        def concatenated_forward(
            self, model: Any, batch: Any, is_ref_model: bool = False
        ) -> dict[str, torch.Tensor]:
            tokens = AnswerTokens.of(model, batch)
            totals = tokens.totals(None if is_ref_model else self.ld_alpha)
            means = totals / tokens.counts
            kept = means if self.loss_type in {"ipo", "orpo", "simpo"} else totals
            found = {"logps": kept, "logits": tokens.mean_logits, "logps_avg": means}
            return {
                f"{side}_{name}": half
                for name, values in found.items()
                for side, half in zip(("chosen", "rejected"), values.chunk(2), strict=True)
            }

        def dpo_loss(self, *log_probabilities: torch.Tensor, **_: Any) -> Any:
            return super().dpo_loss(*log_probabilities, loss_type=self.loss_type)

        def get_batch_loss_metrics(self, model: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
            loss, metrics = super().get_batch_loss_metrics(model, batch, *args, **kwargs)
            pairs = len(batch["labels"]) // 2
            sums = {name.removeprefix("eval_"): mean * pairs for name, mean in metrics.items()}
            self.add_to_metrics(model, loss, pairs, pairs=pairs, **sums)
            return loss, metrics

        def store_metrics(self, *_: Any, **__: Any) -> None:
            """The sums are logged instead."""

    return DpoTrainer


def _means_by_pair(total: dict[str, float]) -> dict[str, float]:
    """The means over pairs; the metrics of ORPO only where it is trained, which makes them
    positive."""
    pairs = total["pairs"]
    names = (*_PAIR_SUMS, *(name for name in _ORPO_SUMS if total[name]))
    return {name: total[name] / pairs for name in names} if pairs else {}


_KTO_METRICS = ("rewards", "logps", "logits")


def kto_trainer() -> Any:
    """The trainer of stage kto, with metrics over all rows of all processes.

    The original logs those of the first process alone, adds up ``kl`` over the micro-batches
    between two logs, and drops the counts.
    """
    original: Any = llamafactory_module("train.kto.trainer").CustomKTOTrainer
    sides = ("chosen", "rejected")
    sums = tuple(f"{name}/{side}_sum" for name in _KTO_METRICS for side in sides)
    counts = tuple(f"count/{side}" for side in sides)
    trainer: Any = in_sequences(original, (*sums, *counts, "kl", "rows"), _kto_means)

    class KtoTrainer(trainer):  # type: ignore[misc]  # a class made at run time
        def forward(
            self, model: Any, batch: Any, prefix: str = ""
        ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            tokens = AnswerTokens.of(model, batch, prefix)
            totals = tokens.totals()
            return tokens.mean_logits, totals, totals / tokens.counts

        def get_batch_loss_metrics(self, model: Any, batch: Any) -> Any:
            loss, metrics = super().get_batch_loss_metrics(model, batch)
            rows = len(batch["labels"])
            sums = metrics | {"kl": metrics["kl"] * rows}
            self.add_to_metrics(model, loss, rows, rows=rows, **sums)
            return loss, metrics

        def store_metrics(self, *_: Any, **__: Any) -> None:
            """The sums are logged instead."""

    return KtoTrainer


def _kto_means(total: dict[str, float]) -> dict[str, float]:
    """Means over the rows of each side, the reward margin, the counts and the mean KL."""
    if not total["rows"]:
        return {}
    means: dict[str, float] = {}
    for side in ("chosen", "rejected"):
        count = total[f"count/{side}"]
        means[f"count/{side}"] = count
        if count:
            means |= {
                f"{name}/{side}": total[f"{name}/{side}_sum"] / count for name in _KTO_METRICS
            }
    if {"rewards/chosen", "rewards/rejected"} <= means.keys():
        means["rewards/margins"] = means["rewards/chosen"] - means["rewards/rejected"]
    return means | {"kl": total["kl"] / total["rows"]}


def reward_model_trainer(resume_from: str | None = None) -> Any:
    """The trainer of stage rm, with metrics, and with checkpoints that it can resume from.

    The original logs the loss alone. Its checkpoints hold the language model and the value head in
    separate files, which it does not reload: training would continue from the base. For full and
    frozen models LLaMA-Factory drops the checkpoint to resume from with a warning. A model whose
    output layer is its embeddings cannot be saved at all: safetensors refuses weights in one place.
    """
    original: Any = llamafactory_module("train.rm.trainer").PairwiseTrainer
    completing: Any = llamafactory_module("train.callbacks").FixValueHeadModelCallback

    trainer: Any = in_sequences(original, _SCORE_SUMS, _score_means, parts=2)

    class RewardModelTrainer(trainer):  # type: ignore[misc]  # a class made at run time
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            # It completes a checkpoint, so it must run before the callback that marks it complete.
            self.callback_handler.callbacks.sort(key=lambda each: not isinstance(each, completing))

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, **kwargs: Any
        ) -> Any:
            loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **kwargs)
            chosen, rejected = (scores.detach().float().reshape(-1) for scores in outputs[1:])
            self.add_to_metrics(
                model,
                loss,
                len(chosen),
                chosen=chosen.sum().item(),
                rejected=rejected.sum().item(),
                accuracies=(chosen > rejected).sum().item(),
                pairs=float(len(chosen)),
            )
            return (loss, outputs) if return_outputs else loss

        def train(self, resume_from_checkpoint: str | None = None, **kwargs: Any) -> Any:
            chosen = resume_from_checkpoint or resume_from
            return super().train(resume_from_checkpoint=chosen, **kwargs)

        def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
            weights = self.model.state_dict() if state_dict is None else state_dict
            super()._save(output_dir, _without_repeats(weights))

        def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
            load_value_head_model(model or self.model, Path(resume_from_checkpoint))

    return RewardModelTrainer


def _without_repeats(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights without the further names of tied ones, which `from_pretrained` ties again."""
    first: dict[tuple[int, torch.Size], str] = {}
    for name, tensor in weights.items():
        first.setdefault((tensor.data_ptr() or id(tensor), tensor.shape), name)
    return {name: weights[name] for name in first.values()}


_SCORE_SUMS = ("chosen", "rejected", "accuracies", "pairs")


def _score_means(total: dict[str, float]) -> dict[str, float]:
    pairs = total["pairs"]
    if not pairs:
        return {}
    means = {
        f"rewards/{name}": total[name] / pairs for name in ("chosen", "rejected", "accuracies")
    }
    return means | {"rewards/margins": means["rewards/chosen"] - means["rewards/rejected"]}


def load_value_head_model(model: Any, checkpoint: Path) -> None:
    """Load a checkpoint of stage rm into a language model with a value head."""
    inner = model.pretrained_model
    if isinstance(inner, PeftModel):
        set_peft_model_state_dict(inner, load_file(checkpoint / ADAPTER_WEIGHTS))
    else:
        weights = {
            name: tensor
            for path in sorted(checkpoint.glob("model*.safetensors"))
            for name, tensor in load_file(path).items()
        }
        missing = inner.load_state_dict(weights, strict=False).missing_keys
        tied = set(getattr(inner, "all_tied_weights_keys", None) or ())
        if lost := set(missing) - tied:
            raise ValueError(f"{checkpoint.name} lacks weights: {sorted(lost)[0]}")
    head = {
        name.removeprefix("v_head."): tensor
        for name, tensor in load_file(checkpoint / VALUE_HEAD).items()
    }
    model.v_head.load_state_dict(head)


def _with_fixed_bias(load_model: Callable[..., Any]) -> Callable[..., Any]:
    """Load a model whose value head has a bias of zero that is not trained.

    The loss sees differences of scores only: the bias cancels out, and one-label sequence
    classifiers, as which the model is used later, have none.
    """

    def load(*args: Any, **kwargs: Any) -> Any:
        model = load_model(*args, **kwargs)
        bias = model.v_head.summary.bias
        torch.nn.init.zeros_(bias)
        bias.requires_grad_(False)
        return model

    return load
