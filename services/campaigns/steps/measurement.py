"""Measures a model on both parts of the benchmark with ordinary evaluation jobs: over several seeds
where the search part is too small for one to tell much.

A seed is that of the training and of the sampling of its evaluations, so that the mean over seeds
says more of the data and the settings than of one training's luck. The number of seeds is fixed
before any further one is begun, by the number of items and the budget alone: stopping at a score
that pleases would make chance look like a gain.
"""

import contextlib
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from services.campaigns.data.benchmark import (
    FINAL,
    SEARCH,
    Item,
    Parts,
    divide,
    read_items,
)
from services.campaigns.run.effects import Effect
from services.campaigns.run.records import Measurement, SeedMeasurement, WrongSample
from services.campaigns.run.results import ResultRow
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import BudgetSpent, StepFailed
from services.campaigns.steps.part import (
    PartEvaluation,
    are_shares,
    item_means,
    item_scores,
    worst_sample,
)
from services.contracts.campaigns.limits import Limit
from services.contracts.campaigns.loops import Failure
from services.metrics.missing_scores import worst_given

SHOWN_SAMPLES = 10
QUESTION_CHARACTERS = 1000
ANSWER_CHARACTERS = 500


def parts_of(run: CampaignRun) -> Parts:
    """Both parts of the benchmark; the split is deterministic."""
    request = run.request
    return divide(read_items(run.artifacts.file(request.file), request), request)


def begin_measurement(
    run: CampaignRun, model: str, parts: Parts, seed: int = 0
) -> tuple[PartEvaluation, PartEvaluation]:
    """Create the evaluations of a model, at most once, for `measure` to await: that of the search
    part, and that of the final part."""
    search, final = (
        PartEvaluation(run, f"evaluate.{name}", name, model, items, seed)
        for name, items in ((SEARCH, parts.search), (FINAL, parts.final))
    )
    search.begin()
    final.begin()
    return search, final


def measure(run: CampaignRun, model: str, parts: Parts, seed: int = 0) -> Measurement:
    """Evaluate a model on both parts; raises `StepFailed` when an evaluation fails.

    Every ``seed`` samples different responses, unless sampling is greedy.
    """
    on_search, on_final = begin_measurement(run, model, parts, seed)
    search, final = on_search.rows(), on_final.rows(with_reason=False)
    wrong = [row for row in search if row.correct is False]
    random.Random(on_search.begin()).shuffle(wrong)  # noqa: S311 - a sample, not a secret
    higher = run.request.higher_is_better
    found = Measurement(
        model=model,
        search=item_scores(search, run.request.pass_k),
        final=item_scores(final, run.request.pass_k),
        search_worst=worst_sample(search, higher_is_better=higher),
        final_worst=worst_sample(final, higher_is_better=higher),
        wrong=[_shown(row, parts.search) for row in _distinct(wrong)[:SHOWN_SAMPLES]],
        shares=are_shares([*search, *final]),
    )
    return _with_lost(found, parts)


def _with_lost(found: Measurement, parts: Parts) -> Measurement:
    """The measurement with the number of items that have no place among its scores."""
    search, final = len(parts.search) - len(found.search), len(parts.final) - len(found.final)
    return found.model_copy(update={"search_left_out": search, "final_left_out": final})


def _distinct(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """One sample of each item."""
    return list({row.index: row for row in rows}.values())


def _shown(row: ResultRow, items: Sequence[Item]) -> WrongSample:
    return WrongSample(
        question=items[row.index].question[:QUESTION_CHARACTERS],
        gold=row.gold,
        answer=(row.answer or "")[:ANSWER_CHARACTERS],
    )


class Models(Protocol):
    """The models of an experiment, by seed."""

    @property
    def varies(self) -> bool:
        """Whether another seed yields different scores."""

    def begin(self, seed: int) -> object:
        """Create the first jobs of a seed once, without waiting for them."""

    def model(self, seed: int) -> str:
        """The name of the model once it exists; until then, raises `Waiting`."""


@dataclass(frozen=True)
class FixedModel:
    """One model for every seed; only its sampled responses differ."""

    run: CampaignRun
    name: str
    parts: Parts

    @property
    def varies(self) -> bool:
        """Whether another seed yields different scores."""
        return self.run.request.sampling.temperature > 0

    def begin(self, seed: int) -> object:
        """Create the evaluations of a seed."""
        return begin_measurement(self.run, self.name, self.parts, seed)

    def model(self, seed: int) -> str:
        """The model, whose evaluations have been created."""
        self.begin(seed)
        return self.name


def measure_seeds(run: CampaignRun, parts: Parts, models: Models) -> Measurement:
    """Measure the model of the first seed, and those of further seeds as policy and budget allow.

    Raises `StepFailed` when the first seed fails, or a further one through a fault of settings or
    data. A further seed stopped by the environment or the budget is left out, with a note.
    """
    first = measure(run, models.model(0), parts)
    wanted = run.request.seeds.most
    if wanted == 1 or not models.varies or len(parts.search) >= run.request.seeds.below_items:
        return first
    number, notes = _affordable(run, wanted)
    measured = [_of_seed(0, first)]
    with contextlib.suppress(BudgetSpent):  # met again below
        for seed in range(1, number):
            models.begin(seed)
    for seed in range(1, number):
        try:
            found = measure(run, models.model(seed), parts, seed)
        except BudgetSpent as spent:
            notes.append(f"the limit of {spent.limit} was reached before seed {seed} had scores")
        except StepFailed as failed:
            if failed.failure is not Failure.ENVIRONMENT:
                raise StepFailed(failed.failure, f"seed {seed}: {failed.message}") from failed
            notes.append(f"seed {seed}: {failed.message}")
        else:
            measured.append(_of_seed(seed, found))
            first = first.model_copy(update={"shares": first.shares and found.shares})
    note = f"{len(measured)} of {wanted} seeds: {'; '.join(notes)}" if notes else None
    means = first.model_copy(
        update={
            **_pooled(measured, higher_is_better=run.request.higher_is_better),
            "seeds": measured,
            "seeds_note": note,
        }
    )
    return _with_lost(means, parts)


def _affordable(run: CampaignRun, wanted: int) -> tuple[int, list[str]]:
    """The number of seeds, decided once, and what limits it."""

    async def decide() -> Effect:
        number, limit = _within_budget(run, wanted)
        share = f"{run.request.seeds.budget_share:.0%}"
        why = f"more would take over {share} of what the limit of {limit} leaves" if limit else ""
        run.note(f"Loop {run.loop}: {number} of {wanted} seeds" + (f"; {why}" if why else ""))
        return Effect({"seeds": number, "note": why})

    decided = run.once("seeds", decide).response
    return int(decided["seeds"]), [str(decided["note"])] if decided["note"] else []


def _within_budget(run: CampaignRun, wanted: int) -> tuple[int, Limit | None]:
    """How many seeds the policy's share of the budget covers, at the cost of the first."""
    spent, share = run.time_of_jobs(), run.request.seeds.budget_share
    number, limit = wanted, None
    for left, cost, name in (
        (run.budget.seconds_left, spent.seconds, Limit.HOURS),
        (run.gpu_seconds_left(), spent.gpu_seconds, Limit.GPU_HOURS),
    ):
        if left is None or cost <= 0:
            continue
        affordable = 1 + math.floor(share * max(0.0, left) / cost)
        if affordable < number:
            number, limit = affordable, name
    return number, limit


def _pooled(measured: Sequence[SeedMeasurement], *, higher_is_better: bool) -> dict[str, Any]:
    """The scores over all seeds."""
    search_worst, final_worst = (
        worst_given(each, higher_is_better=higher_is_better)
        for each in zip(*((one.search_worst, one.final_worst) for one in measured), strict=True)
    )
    return {
        "search": item_means([each.search for each in measured]),
        "final": item_means([each.final for each in measured]),
        "search_worst": search_worst,
        "final_worst": final_worst,
    }


def _of_seed(seed: int, found: Measurement) -> SeedMeasurement:
    return SeedMeasurement(
        seed=seed,
        model=found.model,
        search=found.search,
        final=found.final,
        search_worst=found.search_worst,
        final_worst=found.final_worst,
    )
