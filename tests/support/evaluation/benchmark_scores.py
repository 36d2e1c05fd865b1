"""Grading of answers to rows of a benchmark."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from services.contracts.evaluation.benchmarks import graded_by
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from services.contracts.rewards.graders import MetricsVariant
from services.core.operator_environment import OperatorEnvironment
from services.evaluator.evaluation.samples import parse_sample
from services.rewards.factory import RewardFactory
from services.rewards.interface import Sample, Score


def benchmark_scores(
    name: str, *asked: tuple[dict[str, Any], str], metrics: MetricsVariant = "official"
) -> list[Score]:
    """The scores of answers, each after its row."""
    benchmark = BENCHMARKS[name]

    async def grade() -> list[Score]:
        async with AsyncExitStack() as stack:
            factory = RewardFactory(OperatorEnvironment(attempts=1), stack)
            component = await factory.component(graded_by(benchmark, metrics), "grader")
            found = []
            for data, answer in asked:
                item = parse_sample(data, 0, None, benchmark)
                sample = Sample.of_answer(answer, item.messages, item.gold, item.extra)
                found.append(await component.score(sample))
            return found

    return asyncio.run(grade())
