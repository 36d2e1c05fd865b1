"""Evaluates a model on a part of the benchmark with an ordinary evaluation job, and items of which
the infrastructure lost samples once more.

What is lost again says nothing about the model: such a sample has no place among the scores, unlike
one that the grader could not score, which counts as the worst.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from services.campaigns.data.benchmark import Item, write_rows
from services.campaigns.gateway import GatewayRefused
from services.campaigns.run.effects import Effect
from services.campaigns.run.results import ResultRow, evaluation_rows
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import BudgetSpent, StepFailed
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.data.files import FilePurpose
from services.metrics.missing_scores import Score, Scores, mean_of, score_of, worst_given
from services.metrics.repeated import pass_at_k

SAMPLING_SEEDS = 2**31


def seed_key(key: str, seed: int) -> str:
    """The key of an effect for one seed."""
    return f"{key}.seed-{seed}" if seed else key


@dataclass(frozen=True)
class PartEvaluation:
    """The evaluation of a model on ``items``, uploaded under ``name``, with a key of the current
    step. Every ``seed`` samples different responses, unless sampling is greedy."""

    run: CampaignRun
    key: str
    name: str
    model: str
    items: Sequence[Item]
    seed: int = 0

    def begin(self) -> str:
        """Create its job, at most once for a key and a seed; return its id."""
        request = _with_seed(self.run.request, self.seed)
        body = {
            "model": self.model,
            "file": _upload(self.run, self.name, self.items),
            **request.model_dump(
                mode="json",
                include={
                    "grader",
                    "benchmark",
                    "judge",
                    "samples_per_item",
                    "sampling",
                    "system_prompt",
                    "chat_template_kwargs",
                    "engine",
                },
            ),
        }
        limit = request.time_limits.evaluation
        return self.run.create_job(seed_key(self.key, self.seed), "/v1/evaluations", body, limit)

    def rows(self, *, with_reason: bool = True) -> list[ResultRow]:
        """The results, by item, as of `evaluation_rows`; those of items with lost samples are of a
        second evaluation where that lost fewer of them. Raises `Waiting` and `StepFailed`."""
        found = evaluation_rows(self.run, self.begin(), with_reason=with_reason)
        lost = sorted({row.index for row in found if row.left_out is not None})
        if not lost:
            return found
        try:
            again = evaluation_rows(self.run, self._again(lost).begin(), with_reason=False)
        except (BudgetSpent, GatewayRefused, StepFailed):
            return found  # comparisons leave these items out
        moved = [row.model_copy(update={"index": lost[row.index]}) for row in again]
        return _with_fewer_lost(found, moved)

    def _again(self, lost: Sequence[int]) -> "PartEvaluation":
        key = f"{self.key}.again"
        name = seed_key(key, self.seed)
        if self.run.recorded(_upload_key(name)) is None:
            self.run.note(
                f"Loop {self.run.loop}: {len(lost)} of {len(self.items)} items of the {self.name} "
                "part are evaluated again, since the infrastructure lost samples of theirs"
            )
        items = [self.items[index] for index in lost]
        return replace(self, key=key, name=name, items=items)


def _with_fewer_lost(first: Sequence[ResultRow], again: Sequence[ResultRow]) -> list[ResultRow]:
    """The rows of both, by item, with those that ``again`` has in place of the first ones where it
    lost fewer."""
    ours, theirs = _by_item(first), _by_item(again)
    better = {
        index: rows for index, rows in theirs.items() if _lost(rows) < _lost(ours.get(index, rows))
    }
    return [row for _, rows in sorted({**ours, **better}.items()) for row in rows]


def _lost(rows: Sequence[ResultRow]) -> int:
    return sum(row.left_out is not None for row in rows)


def _by_item(rows: Sequence[ResultRow]) -> Mapping[int, list[ResultRow]]:
    by_item: dict[int, list[ResultRow]] = {}
    for row in rows:
        by_item.setdefault(row.index, []).append(row)
    return by_item


def _with_seed(request: CreateCampaign, seed: int) -> CreateCampaign:
    """The request with its own sampling seed, so that no two samples of an item share one."""
    first = request.sampling.seed
    if first is None:
        return request
    moved = (first + seed * request.samples_per_item) % SAMPLING_SEEDS
    return request.model_copy(
        update={"sampling": request.sampling.model_copy(update={"seed": moved})}
    )


def _upload_key(name: str) -> str:
    return f"upload.{name}"


def _upload(run: CampaignRun, name: str, items: Sequence[Item]) -> str:
    """Upload a part; every loop has its own effect, so that a deleted file is uploaded again."""
    path, key = run.folder / f"{name}.jsonl", _upload_key(name)

    async def upload() -> Effect:
        write_rows(path, [item.row for item in items])
        file = await run.gateway.upload(
            path, path.name, FilePurpose.EVALS, run.idempotency_key(key)
        )
        return Effect({"id": file})

    return str(run.once(key, upload).response["id"])


def item_scores(rows: Sequence[ResultRow], pass_k: int | None) -> Scores:
    """The score of each item over its samples: their mean, or pass@k.

    Lost samples are left out, as are items of which none remains, or fewer than ``pass_k``. One
    that has no score for another reason is missing in its item's mean, and not correct in pass@k.
    """
    remaining = _by_item([row for row in rows if row.left_out is None])
    return {
        index: _score(samples, pass_k)
        for index, samples in remaining.items()
        if len(samples) >= (pass_k or 1)
    }


def _score(samples: Sequence[ResultRow], pass_k: int | None) -> Score:
    if pass_k is None:
        return score_of([row.score for row in samples])
    return pass_at_k(len(samples), sum(row.correct is True for row in samples), pass_k)


def worst_sample(rows: Sequence[ResultRow], *, higher_is_better: bool) -> float | None:
    """The worst score of a sample that the infrastructure did not lose; None if none has one."""
    given = (row.score for row in rows if row.left_out is None)
    return worst_given(given, higher_is_better=higher_is_better)


def are_shares(rows: Sequence[ResultRow]) -> bool:
    """Whether all samples scored 0 or 1, or not at all, so that scores of items are shares."""
    return all(row.score in {None, 0.0, 1.0} for row in rows)


def item_means(of_seeds: Sequence[Scores]) -> Scores:
    """The mean of each item.

    An item that one seed lost is left out: the models of seeds differ, so that the mean over the
    rest would be one of others.
    """
    return {
        item: mean_of([scores[item] for scores in of_seeds])
        for item in of_seeds[0]
        if all(item in scores for scores in of_seeds)
    }
