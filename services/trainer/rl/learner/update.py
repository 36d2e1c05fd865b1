"""One update of the weights from one batch."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from services.contracts.training.policy_loss import Aggregation
from services.trainer.rl.batch import TokenValues
from services.trainer.rl.learner.exactness import check_exactness
from services.trainer.rl.learner.micro_batches import (
    Layout,
    MicroBatch,
    TrainedTokens,
    micro_batches,
)
from services.trainer.rl.learner.mismatch import sampler_mismatch
from services.trainer.rl.learner.parallel import ProcessGroup
from services.trainer.rl.losses import token_weights


class MetricAccumulator:
    """Sums that stay on the device until the update finishes.

    While not ``counting``, values are ignored but names are registered: all processes must reduce
    the same names. ``moved`` is whether an optimizer step of the update has changed the weights.
    """

    def __init__(self, device: torch.device, tokens: int) -> None:
        """``tokens`` is the number of trained tokens of the batch."""
        self.counting = True
        self.moved = False
        self.device = device
        self._tokens = tokens
        self._token_sums: Tensor | None = None
        self._sums: dict[str, Tensor] = {}
        self._maxima: dict[str, Tensor] = {}

    def mean(self, name: str, values: Tensor) -> None:
        """Add ``values`` (m,) to a mean over all tokens."""
        total = values.detach().sum(dtype=torch.float64)
        self._add(name, total, torch.full_like(total, values.numel()))

    def part(self, name: str, value: Tensor) -> None:
        """Add a part of a loss: parts are summed, and averaged over optimizer steps."""
        value = value.detach().double()
        self._add(name, value, torch.zeros_like(value))

    def share(self, name: str, part: int, whole: int) -> None:
        """Add to a share of all that is counted: ``part`` of ``whole``."""
        counted = torch.tensor([part, whole], dtype=torch.float64, device=self.device)
        self._add(name, counted[0], counted[1])

    def largest(self, name: str, values: Tensor) -> None:
        """Add ``values`` (m,) to a maximum."""
        before = self._maxima.setdefault(
            name, torch.full((), -torch.inf, dtype=torch.float64, device=self.device)
        )
        if self.counting and values.numel():
            self._maxima[name] = torch.maximum(before, values.detach().max().double())

    def per_token(self, places: Tensor, *values: Tensor) -> None:
        """Add ``values``, each (c,), to the means over passes of the batch's tokens ``places``
        (c,)."""
        if self._token_sums is None:
            self._token_sums = torch.zeros(self._tokens, len(values) + 1, device=self.device)
        if self.counting:
            added = [each.detach().float() for each in (*values, torch.ones_like(values[0]))]
            self._token_sums.index_add_(0, places, torch.stack(added, dim=1))

    def collect_per_token(self, processes: ProcessGroup) -> Tensor | None:
        """Each token's means over all processes, (m, number of values); None if there are none."""
        if self._token_sums is None:
            return None
        sums = processes.sum(self._token_sums)
        return sums[:, :-1] / sums[:, -1:].clamp(min=1)

    def collect(self, processes: ProcessGroup, steps: int) -> dict[str, float]:
        """The metrics over all processes, after ``steps`` optimizer steps."""
        metrics: dict[str, float] = {}
        if self._sums:
            sums = processes.sum(torch.stack([self._sums[name] for name in sorted(self._sums)]))
            for name, (total, count) in zip(sorted(self._sums), sums.tolist(), strict=True):
                metrics[name] = total / (count or steps)
        if self._maxima:
            names = sorted(self._maxima)
            maxima = processes.maximum(torch.stack([self._maxima[name] for name in names]))
            metrics |= dict(zip(names, maxima.tolist(), strict=True))
        return metrics

    def _add(self, name: str, total: Tensor, count: Tensor) -> None:
        before = self._sums.setdefault(
            name, torch.zeros(2, dtype=torch.float64, device=self.device)
        )
        if self.counting:
            self._sums[name] = before + torch.stack([total, count])


@dataclass(frozen=True)
class Passes:
    """Epochs over a batch, and optimizer steps in each."""

    epochs: int = 1
    mini_batches: int = 1

    @property
    def steps(self) -> int:
        """Optimizer steps per update."""
        return self.epochs * self.mini_batches


@dataclass(frozen=True)
class UpdateResult:
    """The metrics of an update, and what it computed for each trained token, if its method does."""

    metrics: dict[str, float]
    token_values: TokenValues | None


class Loss(Protocol):
    """The loss on one batch."""

    def __call__(
        self, micro: MicroBatch, weights: Tensor, accumulator: MetricAccumulator
    ) -> Tensor:
        """A micro-batch's term of the loss: its token losses times ``weights`` (m,), summed."""
        ...


class Objective(Protocol):
    """A training objective."""

    passes: Passes
    aggregation: Aggregation

    def begin(self, tokens: TrainedTokens, metrics: dict[str, float]) -> Loss:
        """Prepare a batch under the current weights; adds to its ``metrics``."""
        ...


@dataclass(frozen=True)
class Updater:
    """Turns batches into optimizer steps.

    Randomness in update ``n`` depends on the seed and ``n`` only, so that resumed training
    continues identically.
    """

    model: Any
    optimizer: Any
    objective: Objective
    processes: ProcessGroup
    warmup_steps: int
    layout: Layout
    seed: int
    max_response_length: int
    exact: bool = False

    def update(self, tokens: TrainedTokens, step: int) -> UpdateResult:
        """Train on a batch; ``step`` counts updates from 0.

        Raises `Diverged` rather than continue from corrupt weights, and, if it is to be ``exact``,
        `NotOnPolicy` rather than take a step on tokens of another policy.
        """
        began = time.perf_counter()
        entropy = np.random.SeedSequence([self.seed, step, self.processes.rank])
        torch.manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> 1))
        set_learning_rates(self.optimizer, step, self.warmup_steps)
        metrics: dict[str, float] = {}
        loss = self.objective.begin(tokens, metrics)
        scored = time.perf_counter()
        accumulator = MetricAccumulator(self.processes.device, tokens.count)
        self.model.train()
        steps = 0
        for chosen in self._mini_batches(tokens, step):
            self._accumulate(tokens, chosen, loss, accumulator)
            if self.exact and steps == 0:
                self._check_exactness(tokens, chosen, accumulator)
            steps += 1
            accumulator.moved = True
            accumulator.counting = self.processes.is_main
            for name, norm in self.processes.step().items():
                accumulator.part(name, torch.tensor(norm, device=accumulator.device))
        metrics |= accumulator.collect(self.processes, steps)
        metrics |= self._times(tokens, began, scored)
        values = accumulator.collect_per_token(self.processes)
        if values is not None:
            metrics |= sampler_mismatch(values[:, 0], tokens)
        token_values = None if values is None else TokenValues(values.cpu().numpy())
        return UpdateResult(metrics, token_values)

    def _check_exactness(
        self, tokens: TrainedTokens, chosen: list[int], accumulator: MetricAccumulator
    ) -> None:
        """Compare what the first optimizer step computed before it changes the weights."""
        values = accumulator.collect_per_token(self.processes)
        assert values is not None  # noqa: S101 - policy gradients compute them
        computed = torch.isin(tokens.sequence_of, torch.tensor(chosen))
        check_exactness(values[:, 0].cpu().where(computed, tokens.sampler_log_probs), tokens)

    def measure(self, tokens: TrainedTokens) -> dict[str, float]:
        """The metrics of a batch without an update, including its loss."""
        metrics: dict[str, float] = {}
        loss = self.objective.begin(tokens, metrics)
        accumulator = MetricAccumulator(self.processes.device, tokens.count)
        trained = np.flatnonzero(tokens.lengths.numpy()).tolist()
        weights = self._weights(tokens, trained)
        self.model.eval()
        with torch.no_grad():
            for micro in self._micro_batches(tokens, trained):
                accumulator.counting = micro.real
                loss(micro, weights[micro.tokens], accumulator)
        return metrics | accumulator.collect(self.processes, steps=1)

    def _mini_batches(self, tokens: TrainedTokens, step: int) -> Iterator[list[int]]:
        """The sequences of each optimizer step, over all processes; only those with trained
        tokens. Those of one sample are in one step."""
        samples = tokens.sample_of.numpy()
        has_tokens = tokens.lengths.numpy() > 0
        trained = np.unique(samples[has_tokens])
        passes = self.objective.passes
        for epoch in range(passes.epochs):
            shuffled = np.random.default_rng([self.seed, step, epoch]).permutation(trained)
            for part in np.array_split(shuffled, passes.mini_batches):
                if len(part):
                    yield [
                        int(sequence)
                        for sample in part
                        for sequence in np.flatnonzero((samples == sample) & has_tokens)
                    ]

    def _accumulate(
        self, tokens: TrainedTokens, chosen: list[int], loss: Loss, accumulator: MetricAccumulator
    ) -> None:
        """Accumulate the gradient of a mini-batch."""
        weights = self._weights(tokens, chosen)
        own = list(self._micro_batches(tokens, chosen))
        for number, micro in enumerate(own):
            accumulator.counting = micro.real
            accumulator.share("real_token_share", len(micro.token_ids), micro.computed)
            share = weights[micro.tokens] if micro.real else torch.zeros_like(weights[micro.tokens])
            with self.processes.gradients(last=number == len(own) - 1):
                part = loss(micro, share, accumulator)
                self.processes.backward(part)

    def _weights(self, tokens: TrainedTokens, chosen: list[int]) -> Tensor:
        lengths = torch.zeros_like(tokens.lengths)
        lengths[chosen] = tokens.lengths[chosen]
        weights = torch.zeros(tokens.count)
        inside = lengths[tokens.sequence_of] > 0
        weights[inside] = token_weights(
            lengths, self.objective.aggregation, self.max_response_length, tokens.sample_of
        )
        return weights.to(self.processes.device)

    def _micro_batches(self, tokens: TrainedTokens, chosen: list[int]) -> Iterator[MicroBatch]:
        return micro_batches(
            tokens,
            chosen,
            layout=self.layout,
            rank=self.processes.rank,
            processes=self.processes.world_size,
            device=self.processes.device,
        )

    def _times(self, tokens: TrainedTokens, began: float, scored: float) -> dict[str, float]:
        now = time.perf_counter()
        whole = sum(len(each.token_ids) for each in tokens.sequences)
        return {
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "trained_tokens": float(tokens.count),
            "sequences": float(len(tokens.sequences)),
            "tokens_per_second": whole / (now - began),
            "scoring_seconds": scored - began,
            "forward_backward_seconds": now - scored,
        }


def set_learning_rates(optimizer: Any, step: int, warmup_steps: int) -> None:
    """Set the learning rates of update ``step``: linear warmup, then constant."""
    share = min(1.0, (step + 1) / max(1, warmup_steps))
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * share
