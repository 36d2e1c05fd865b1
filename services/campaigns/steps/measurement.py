"""Measures a model on both parts of the benchmark with ordinary evaluation jobs."""

import math
import random
from collections.abc import Sequence

from services.campaigns.data.benchmark import (
    FINAL,
    SEARCH,
    Item,
    Parts,
    divide,
    read_items,
    write_rows,
)
from services.campaigns.run.effects import Effect
from services.campaigns.run.records import Measurement, Scores, WrongSample
from services.campaigns.run.results import ResultRow, evaluation_rows
from services.campaigns.run.run import CampaignRun
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.data.files import FilePurpose
from services.metrics.repeated import pass_at_k

SHOWN_SAMPLES = 10
QUESTION_CHARACTERS = 1000
ANSWER_CHARACTERS = 500
SAMPLING_SEEDS = 2**31


def parts_of(run: CampaignRun) -> Parts:
    """Both parts of the benchmark; the split is deterministic."""
    request = run.request
    return divide(read_items(run.artifacts.file(request.file), request), request)


def begin_measurement(run: CampaignRun, model: str, parts: Parts, seed: int = 0) -> dict[str, str]:
    """Create the evaluations of a model, at most once, for `measure` to await; return their ids."""
    return {
        name: begin_part(run, f"evaluate.{name}", name, model, items, seed)
        for name, items in ((SEARCH, parts.search), (FINAL, parts.final))
    }


def measure(run: CampaignRun, model: str, parts: Parts, seed: int = 0) -> Measurement:
    """Evaluate a model on both parts; raises `StepFailed` when an evaluation fails.

    Every ``seed`` samples different responses, unless sampling is greedy.
    """
    jobs = begin_measurement(run, model, parts, seed)
    search, final = (
        evaluation_rows(run, jobs[SEARCH]),
        evaluation_rows(run, jobs[FINAL], with_reason=False),
    )
    wrong = [row for row in search if row.correct is False]
    random.Random(jobs[SEARCH]).shuffle(wrong)  # noqa: S311 - a sample, not a secret
    return Measurement(
        model=model,
        search=item_scores(search, run.request.pass_k),
        final=item_scores(final, run.request.pass_k),
        wrong=[_shown(row, parts.search) for row in _distinct(wrong)[:SHOWN_SAMPLES]],
        shares=all(row.score in {None, 0.0, 1.0} for row in (*search, *final)),
    )


def item_scores(rows: Sequence[ResultRow], pass_k: int | None) -> Scores:
    """The score of each item over its samples: their mean, or pass@k.

    One sample without a score leaves the item without one.
    """
    by_item: dict[int, list[ResultRow]] = {}
    for row in rows:
        by_item.setdefault(row.index, []).append(row)
    return {index: _score(samples, pass_k) for index, samples in by_item.items()}


def _score(samples: Sequence[ResultRow], pass_k: int | None) -> float | None:
    scores = [row.score for row in samples if row.score is not None]
    if len(scores) < len(samples):
        return None
    if pass_k is None:
        return math.fsum(scores) / len(scores)
    return pass_at_k(len(samples), sum(row.correct is True for row in samples), pass_k)


def _distinct(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """One sample of each item."""
    return list({row.index: row for row in rows}.values())


def seed_key(key: str, seed: int) -> str:
    """The key of an effect for one seed."""
    return f"{key}.seed-{seed}" if seed else key


def begin_part(
    run: CampaignRun, key: str, name: str, model: str, items: Sequence[Item], seed: int
) -> str:
    """Create the evaluation of a model on the part with this name, at most once for a key and a
    seed; return its id."""
    request = _with_seed(run.request, seed)
    body = {
        "model": model,
        "file": _upload(run, name, items),
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
    return run.create_job(seed_key(key, seed), "/v1/evaluations", body, limit)


def _with_seed(request: CreateCampaign, seed: int) -> CreateCampaign:
    """The request with its own sampling seed, so that no two samples of an item share one."""
    first = request.sampling.seed
    if first is None:
        return request
    moved = (first + seed * request.samples_per_item) % SAMPLING_SEEDS
    return request.model_copy(
        update={"sampling": request.sampling.model_copy(update={"seed": moved})}
    )


def _upload(run: CampaignRun, name: str, items: Sequence[Item]) -> str:
    """Upload a part; every loop has its own effect, so that a deleted file is uploaded again."""
    path = run.folder / f"{name}.jsonl"

    async def upload() -> Effect:
        write_rows(path, [item.row for item in items])
        key = run.idempotency_key(f"upload.{name}")
        file = await run.gateway.upload(path, f"{name}.jsonl", FilePurpose.EVALS, key)
        return Effect({"id": file})

    return str(run.once(f"upload.{name}", upload).response["id"])


def _shown(row: ResultRow, items: Sequence[Item]) -> WrongSample:
    return WrongSample(
        question=items[row.index].question[:QUESTION_CHARACTERS],
        gold=row.gold,
        answer=(row.answer or "")[:ANSWER_CHARACTERS],
    )
