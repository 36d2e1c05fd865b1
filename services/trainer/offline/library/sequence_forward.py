"""Forward passes of LLaMA-Factory's trainers, of sequences instead of padded rows, with logits that
never exist whole. Written for transformers 5.19 and LLaMA-Factory 0.9.5.

A model's forward function is replaced in the process. It is the library's for calls without labels,
such as those of generation, and for models with an auxiliary loss.
"""

from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftModel
from torch import Tensor
from torch.nn.functional import pad
from transformers.utils import ModelOutput

from services.trainer.forward.output_layer import OutputLayer, Readings, read_logits
from services.trainer.forward.packing import (
    pack_attention,
    packed_states,
    padded_states,
    trunk_of,
)
from services.trainer.offline.generation import IGNORED


@dataclass
class SequenceOutput(ModelOutput):  # type: ignore[misc]  # transformers is untyped here
    """What is read of the logits. ``loss``: the mean cross-entropy of the labels. Per place of the
    rows, (b, n), that predicts a label, and 0 elsewhere: ``predicted``, the most probable token;
    and if asked for ``log_probs`` of the label and ``mean_logits`` over the vocabulary."""

    loss: Tensor | None = None
    predicted: Tensor | None = None
    log_probs: Tensor | None = None
    mean_logits: Tensor | None = None


@dataclass(frozen=True)
class Sequences:
    """The sequences in some rows: the ``places`` (t,) of their tokens in the flattened rows, and
    their ``lengths``."""

    places: Tensor
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, ids: Tensor, mask: Tensor | None, positions: Tensor | None) -> "Sequences":
        """Find them in rows ``ids`` (b, n): packed ones begin where ``positions`` (b, n) are 0;
        otherwise each row is one, up to its padding."""
        if positions is None:
            used = torch.ones_like(ids) if mask is None else mask != 0
            places = used.flatten().nonzero()[:, 0]
            return cls(places, tuple(each for each in used.sum(-1).tolist() if each))
        begins = pad(positions, (0, ids.shape[1] - positions.shape[1])) == 0
        begins[:, 0] = True
        starts = begins.flatten().nonzero()[:, 0]
        lengths = starts.diff(append=starts.new_tensor([ids.numel()]))
        # Padding has position 0 too. A sequence of one token has nothing to learn.
        long = (lengths > 1).repeat_interleave(lengths)
        return cls(long.nonzero()[:, 0], tuple(lengths[lengths > 1].tolist()))

    def predicting(self, labels: Tensor) -> Tensor:
        """The indices (m,) among their tokens of those before a label; ``labels`` are flattened
        rows. What begins a sequence is predicted by nothing."""
        learned = labels[self.places] != IGNORED
        lengths = torch.tensor(self.lengths, device=learned.device)
        learned[lengths.cumsum(0) - lengths] = False
        return learned.nonzero()[:, 0] - 1


class SequenceForward:
    """The forward function of a causal transformers model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._library: Any = model.forward
        self._output = OutputLayer(model)
        self.padded = why_padded(model)
        """Why sequences are padded; None where they are not."""

    # Lengths differ in every batch: torch's compiler sees the trunk alone.
    @torch.compiler.disable(recursive=False)  # type: ignore[untyped-decorator]  # torch is untyped here
    def __call__(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        per_token: bool = False,
        **settings: Any,
    ) -> Any:
        """Compute a batch of rows (b, n). The loss is the mean over ``num_items_in_batch`` labels,
        or over those of the rows; ``per_token`` gives the labels' log-probabilities instead."""
        given = {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}
        if position_ids is not None:
            given["position_ids"] = position_ids
        if num_items_in_batch is not None:
            settings["num_items_in_batch"] = num_items_in_batch
        auxiliary = getattr(self._model.config, "output_router_logits", False)
        if input_ids is None or labels is None or (auxiliary and not per_token):
            return self._library(**given, **settings)
        found = Sequences.of(input_ids, attention_mask, position_ids)
        compute = padded_states if self.padded else packed_states
        tokens = input_ids.flatten()[found.places]
        states = compute(trunk_of(self._model), tokens, found.lengths)
        before = found.predicting(labels.flatten())
        places = found.places[before]
        targets = labels.flatten()[found.places[before + 1]]
        log_probs, predicted, means = self._read(states[before], targets)
        laid = Laid(input_ids, places)
        if per_token:
            return SequenceOutput(log_probs=laid.of(log_probs), mean_logits=laid.of(means))
        count = len(targets) if num_items_in_batch is None else num_items_in_batch
        return SequenceOutput(loss=-log_probs.sum() / count, predicted=laid.of(predicted))

    def _read(self, states: Tensor, targets: Tensor) -> Readings:
        """The log-probabilities of ``targets`` (m,), the most probable tokens and mean logits."""

        def read(logits: Tensor, part: slice) -> Readings:
            log_probs = logits.log_softmax(-1).gather(-1, targets[part, None])[:, 0]
            with torch.no_grad():
                return log_probs, logits.argmax(-1), logits.mean(-1)

        vocabulary = self._model.config.get_text_config().vocab_size
        return read_logits(states, self._output, read, vocabulary)


@dataclass(frozen=True)
class Laid:
    """Lays values out as the rows ``ids`` are."""

    ids: Tensor
    places: Tensor

    def of(self, values: Tensor) -> Tensor:
        """Values (m,) at their places, and 0 elsewhere: (b, n)."""
        flat = torch.zeros(self.ids.numel(), dtype=values.dtype, device=values.device)
        return flat.index_put((self.places,), values).view_as(self.ids)


def compute_sequences(model: Any) -> str | None:
    """Replace the forward function of a causal model, perhaps with an adapter; returns why its
    sequences are padded."""
    causal = model.get_base_model() if isinstance(model, PeftModel) else model
    if not isinstance(causal.forward, SequenceForward):
        causal.forward = SequenceForward(causal)
    padded: str | None = causal.forward.padded
    return padded


def why_padded(model: Any) -> str | None:
    """Make a causal model take packed rows; returns why it cannot."""
    if any(each.is_meta or hasattr(each, "ds_id") for each in model.parameters()):
        return "the weights are sharded before the model could be tried"
    return pack_attention(model)
