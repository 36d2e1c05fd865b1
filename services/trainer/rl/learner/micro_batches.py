"""A batch as tensors over its trained tokens: its micro-batches, and scoring without a gradient."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from services.models.capacity.online import (
    MicroBatching,
    choose_micro_batching,
    learner_load,
    learner_share,
)
from services.models.capacity.shape import read_shape
from services.trainer.rl.batch import TrainingBatch, TrainingSequence
from services.trainer.rl.learner.model import LogprobReader
from services.trainer.rl.learner.parallel import ProcessGroup
from services.trainer.rl.learner.protocol import LearnerSpec


def chosen_micro_batching(spec: LearnerSpec, device: torch.device, processes: int) -> MicroBatching:
    """The micro-batching that the settings name, or the fastest that fits in GPU memory."""
    online = spec.method.online
    shape = read_shape(spec.model)
    load = None
    if online is not None and shape is not None:
        load = learner_load(
            shape,
            online,
            devices=processes,
            continues_adapter=spec.adapter is not None,
            teacher=None if spec.teacher is None else read_shape(spec.teacher),
        )
    settings = spec.settings
    share = learner_share(settings.placement, colocated=spec.engine is not None)
    card_bytes = None
    if device.type == "cuda":
        card_bytes = int(torch.cuda.get_device_properties(device).total_memory)
    return choose_micro_batching(load, settings.optimizer, card_bytes, share.updating)


@dataclass(frozen=True)
class TrainedTokens:
    """The trained tokens of all sequences, concatenated: m tokens of s sequences.

    ``lengths`` (s,) and ``sequence_of`` (m,) say which belong to which sequence, ``starts`` (s,)
    where each begins; ``positions`` are their positions in the sequences; ``sample_of`` (s,) is the
    sample of each sequence, from 0 by their first ones; ``sampler_log_probs`` (m,). All on the CPU.
    """

    sequences: tuple[TrainingSequence, ...]
    positions: tuple[Tensor, ...]
    lengths: Tensor
    starts: Tensor
    sequence_of: Tensor
    sample_of: Tensor
    sampler_log_probs: Tensor

    @classmethod
    def of(cls, batch: TrainingBatch) -> "TrainedTokens":
        """Lay out a batch; raises ValueError if the first token of a sequence is masked in, as
        nothing predicts it."""
        sequences = batch.sequences
        if any(len(each.mask) and each.mask[0] for each in sequences):
            raise ValueError("the first token of a sequence cannot be trained on")
        positions = tuple(torch.from_numpy(np.flatnonzero(each.mask)) for each in sequences)
        lengths = torch.tensor([len(each) for each in positions], dtype=torch.long)
        sampled = [torch.from_numpy(each.sampler_log_probs[each.mask]) for each in sequences]
        return cls(
            sequences=sequences,
            positions=positions,
            lengths=lengths,
            starts=lengths.cumsum(0) - lengths,
            sequence_of=torch.arange(len(sequences)).repeat_interleave(lengths),
            sample_of=_samples_of(sequences),
            sampler_log_probs=torch.cat([torch.zeros(0), *sampled]),
        )

    @property
    def count(self) -> int:
        """The number of trained tokens, m."""
        return len(self.sequence_of)

    @property
    def first_sequences(self) -> list[int]:
        """The first sequence of each sample."""
        found: dict[int, int] = {}
        for sequence, sample in enumerate(self.sample_of.tolist()):
            found.setdefault(sample, sequence)
        return list(found.values())

    def indices(self, sequence: int) -> Tensor:
        """The indices of the tokens of a sequence, in order."""
        start = int(self.starts[sequence])
        return torch.arange(start, start + int(self.lengths[sequence]))


def _samples_of(sequences: Sequence[TrainingSequence]) -> Tensor:
    """The sample of each sequence (s,), numbered by their first sequences."""
    numbers: dict[tuple[bool, int], int] = {}
    for place, each in enumerate(sequences):
        numbers.setdefault(_sample_key(place, each), len(numbers))
    keys = [_sample_key(place, each) for place, each in enumerate(sequences)]
    return torch.tensor([numbers[key] for key in keys], dtype=torch.long)


def _sample_key(place: int, sequence: TrainingSequence) -> tuple[bool, int]:
    return (True, place) if sequence.sample < 0 else (False, sequence.sample)


@dataclass(frozen=True)
class Layout:
    """How sequences are laid out for a forward pass of at most ``limit`` tokens: one behind the
    other, or ``padded`` to rows of one length."""

    limit: int
    padded: bool = False

    def computed(self, lengths: Sequence[int]) -> int:
        """The tokens of a forward pass over sequences of these lengths, padding included."""
        return max(lengths) * len(lengths) if self.padded else sum(lengths)


@dataclass(frozen=True)
class MicroBatch:
    """Some sequences, packed, on the device of the model.

    ``token_ids`` (n,) and their ``lengths``. For the m trained tokens in them: ``targets`` (m,),
    their ids; ``states`` (m,), the places that predict them; ``row_of`` (m,), their sequences;
    ``tokens`` (m,), their indices among all trained tokens of the batch. ``computed`` counts the
    tokens of a forward pass, padding included. A micro-batch that is not ``real`` only keeps a
    process in step with the others.
    """

    token_ids: Tensor
    lengths: tuple[int, ...]
    targets: Tensor
    states: Tensor
    row_of: Tensor
    tokens: Tensor
    computed: int
    real: bool


def micro_batches(
    tokens: TrainedTokens,
    chosen: Sequence[int],
    *,
    layout: Layout,
    rank: int,
    processes: int,
    device: torch.device,
) -> Iterator[MicroBatch]:
    """A process's share of the sequences ``chosen``; every process gets the same number.

    Sequences without a trained token are skipped.
    """
    lengths = [len(each.token_ids) for each in tokens.sequences]
    plan = pack([each for each in chosen if tokens.lengths[each] > 0], lengths, layout)
    for sequences, real in balance(plan, processes)[rank::processes]:
        yield _assemble(tokens, sequences, layout, device, real=real)


def pack(chosen: Sequence[int], lengths: Sequence[int], layout: Layout) -> list[list[int]]:
    """Group sequences of similar length into forward passes; a sequence beyond the limit is a group
    of its own."""
    groups: list[list[int]] = []
    for sequence in sorted(chosen, key=lambda each: -lengths[each]):
        larger = [*groups[-1], sequence] if groups else []
        if groups and layout.computed([lengths[each] for each in larger]) <= layout.limit:
            groups[-1] = larger
        else:
            groups.append([sequence])
    return groups


def balance(groups: Sequence[list[int]], processes: int) -> list[tuple[list[int], bool]]:
    """Make the number of groups a multiple of ``processes``, which proceed in lockstep.

    Groups are split while one has two rows; then some are repeated but not counted (false).
    Neighbors, which run concurrently, are of similar size.
    """
    plan = list(groups)
    while plan and len(plan) % processes:
        place = max(range(len(plan)), key=lambda each: len(plan[each]))
        largest = plan[place]
        if len(largest) < 2:
            break
        plan[place : place + 1] = [largest[0::2], largest[1::2]]
    missing = -len(plan) % processes
    return [(group, True) for group in plan] + [(group, False) for group in plan[-1:]] * missing


def _assemble(
    tokens: TrainedTokens, sequences: list[int], layout: Layout, device: torch.device, *, real: bool
) -> MicroBatch:
    rows = [torch.from_numpy(tokens.sequences[each].token_ids).long() for each in sequences]
    lengths = tuple(len(each) for each in rows)
    starts = np.cumsum(lengths) - lengths
    places = zip(sequences, starts.tolist(), strict=True)
    token_ids = torch.cat(rows)
    trained = torch.cat([tokens.positions[each] + start for each, start in places])
    row_of = torch.arange(len(rows)).repeat_interleave(tokens.lengths[sequences])
    return MicroBatch(
        token_ids=token_ids.to(device),
        lengths=lengths,
        targets=token_ids[trained].to(device),
        states=(trained - 1).to(device),
        row_of=row_of.to(device),
        tokens=torch.cat([tokens.indices(each) for each in sequences]).to(device),
        computed=layout.computed(lengths),
        real=real,
    )


@dataclass(frozen=True)
class Scores:
    """``log_probs`` of the trained tokens (m,), and the values before them (m,), 0 without a
    critic. On the device, in all processes."""

    log_probs: Tensor
    values: Tensor


class BatchScorer:
    """Scores with a wrapped model; each process computes its share."""

    def __init__(self, model: Any, processes: ProcessGroup, layout: Layout) -> None:
        self._model = model
        self._processes = processes
        self.layout = layout

    @property
    def device(self) -> torch.device:
        """The device of the scores."""
        return self._processes.device

    def score(self, tokens: TrainedTokens, temperature: float) -> Scores:
        """Score the tokens of a batch under the current weights."""
        processes = self._processes
        scores = torch.zeros(2, tokens.count, device=processes.device)
        own = micro_batches(
            tokens,
            range(len(tokens.sequences)),
            layout=self.layout,
            rank=processes.rank,
            processes=processes.world_size,
            device=processes.device,
        )
        self._model.eval()
        with torch.no_grad():
            for micro in own:
                read = LogprobReader(micro.targets, temperature)
                (log_probs, _), values = self._model(
                    micro.token_ids, micro.lengths, micro.states, read
                )
                if not micro.real:
                    continue
                scores[0, micro.tokens] = log_probs
                if values is not None:
                    scores[1, micro.tokens] = values
        processes.sum(scores)
        return Scores(scores[0], scores[1])


def sequence_log_probs(
    score: Callable[[TrainedTokens], Tensor], token_ids: Sequence[Sequence[int]]
) -> list[list[float]]:
    """The log-probability of every token after the first, given a scoring function."""
    tokens = TrainedTokens.of(TrainingBatch(tuple(_all_trained(each) for each in token_ids)))
    flat = score(tokens)
    return [part.tolist() for part in flat.split(tokens.lengths.tolist())]


def _all_trained(token_ids: Sequence[int]) -> TrainingSequence:
    count = len(token_ids)
    return TrainingSequence(
        token_ids=np.asarray(token_ids, np.int32),
        mask=np.arange(count) > 0,
        sampler_log_probs=np.zeros(count, np.float32),
        policy_versions=np.full(count, -1, np.int32),
    )


class ReferencePolicy:
    """The frozen model that the KL penalty refers to: a copy, or the policy with its adapter
    disabled."""

    def __init__(self, scorer: BatchScorer, adapted: Any | None = None) -> None:
        """``scorer`` is the copy's; or, with the PEFT model ``adapted``, the policy's own."""
        self._scorer = scorer
        self._adapted = adapted

    def log_probs(self, tokens: TrainedTokens, temperature: float) -> Tensor:
        """Log-probabilities of the trained tokens (m,)."""
        switched_off = nullcontext() if self._adapted is None else self._adapted.disable_adapter()
        with switched_off:
            return self._scorer.score(tokens, temperature).log_probs
