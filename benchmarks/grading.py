"""Throughput of graders for mathematics, tool calls and chemistry, each compared with a baseline.

    python -m benchmarks.grading [--answers 2000]

- mathematics: the grader with its warm, killable processes; baseline: a process per answer that
  calls math-verify, two concurrently;
- tool calls: metrics of texts with fenced JSON; baseline: parsing the JSON of both sides;
- chemistry: the grader with its processes in the runtime `grading`; baseline: a loop there that
  compares the same molecules without limits.

Answers are graded 64 at a time, as in evaluations.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

from services.contracts.base import JsonObject
from services.contracts.rewards.graders import ChemistryGrader, MathGrader
from services.contracts.rewards.rewards import EvaluationGrader
from services.core.operator_environment import OperatorEnvironment
from services.core.process.runtimes import REPOSITORY, child_environment, find_runtime
from services.metrics.tool_call_rows import pair_rows
from services.metrics.tool_calls import Comparison, Strict, measure
from services.rewards.chemistry.family import RUNTIME
from services.rewards.factory import RewardFactory
from services.rewards.interface import Sample

AT_ONCE = 64
PROCESSES = 2
PROCESS_ANSWERS = 12
"""Answers that are graded by a process each: they take about a second."""
VERIFY = "from math_verify import parse, verify; import sys; verify(*map(parse, sys.argv[1:]))"
LOOP = """
import sys, time
from services.rewards.chemistry.structures import molecule_of, morgan_similarity
pairs = [line.split() for line in sys.stdin]
begun = time.perf_counter()
for gold, answer in pairs:
    morgan_similarity(molecule_of(answer), molecule_of(gold))
print(len(pairs) / (time.perf_counter() - begun))
"""
RUNTIMES = REPOSITORY / ".temper" / "runtimes"


def mathematics(answers: int) -> tuple[float, float]:
    """Return answers per second of the grader and of a process per answer."""
    pairs = [_mathematical(number) for number in range(1, answers + 1)]
    samples = [Sample.of_answer(rf"So it is \boxed{{{said}}}.", [], [gold]) for gold, said in pairs]
    ours, right = asyncio.run(graded(MathGrader(), OperatorEnvironment(), samples))
    assert right == 1 - answers // 4 / answers, right

    def verify(pair: tuple[str, str]) -> None:
        command = [sys.executable, "-c", VERIFY, *(f"${each}$" for each in pair)]
        subprocess.run(command, check=True, timeout=60, capture_output=True)

    return ours, rate(lambda: _each(verify, pairs[:PROCESS_ANSWERS]), PROCESS_ANSWERS)


def tool_calls(rows: int) -> tuple[float, float]:
    """Return rows per second of the metrics and of parsing alone."""
    labels = [json.dumps(list(_calls(number))) for number in range(rows)]
    said = [json.dumps({"label": list(_calls(number + number % 2))}) for number in range(rows)]
    texts = [f"<think>Which one?</think>\n```json\n{text}\n```" for text in said]

    def parse() -> None:
        for label, text in zip(labels, said, strict=True):
            json.loads(label)
            json.loads(text)

    def score() -> None:
        paired = pair_rows([json.loads(label) for label in labels], texts)
        metrics = measure((row.sample for row in paired), Comparison())
        assert metrics.single == Strict(hits=(rows + 1) // 2, total=rows), metrics.single

    return rate(score, rows), rate(parse, rows)


def chemistry(answers: int) -> tuple[float, float]:
    """Return answers per second of the grader and of a loop in the same runtime."""
    python = find_runtime(RUNTIMES, RUNTIME).python
    pairs = [
        (f"{'C' * (n % 9 + 1)}c1ccccc1O", f"{'C' * (n % 7 + 1)}c1ccccc1N") for n in range(answers)
    ]
    samples = [
        Sample.of_answer(json.dumps({"Output Scaffold": said}), [], [], _scaffold(gold))
        for gold, said in pairs
    ]
    environment = OperatorEnvironment(runtimes=RUNTIMES)
    ours, _ = asyncio.run(graded(ChemistryGrader(tasks=["mol_und"]), environment, samples))
    done = subprocess.run(
        [python, "-c", LOOP],
        input="".join(f"{gold} {said}\n" for gold, said in pairs),
        env=child_environment({}),
        cwd=REPOSITORY,
        text=True,
        timeout=600,
        check=True,
        stdout=subprocess.PIPE,
    )
    return ours, float(done.stdout)


async def graded(
    grader: EvaluationGrader, environment: OperatorEnvironment, samples: Sequence[Sample]
) -> tuple[float, float]:
    """Return samples per second with warm grader processes, and the mean score."""
    async with AsyncExitStack() as stack:
        component = await RewardFactory(environment, stack).component(grader, "grader")
        await asyncio.gather(*(component.score(sample) for sample in samples[:AT_ONCE]))
        left = iter(samples)
        scores: list[float] = []

        async def grade() -> None:
            for sample in left:
                scores.append((await component.score(sample)).value)

        begun = time.perf_counter()
        await asyncio.gather(*(grade() for _ in range(AT_ONCE)))
        seconds = time.perf_counter() - begun
        return len(samples) / seconds, sum(scores) / len(scores)


def rate(work: Callable[[], None], number: int) -> float:
    """Return items per second."""
    begun = time.perf_counter()
    work()
    return number / (time.perf_counter() - begun)


def _each(work: Callable[[tuple[str, str]], None], pairs: Sequence[tuple[str, str]]) -> None:
    with ThreadPoolExecutor(PROCESSES) as pool:
        for _ in pool.map(work, pairs):
            pass


def _mathematical(n: int) -> tuple[str, str]:
    """Return a gold and an answer: fractions, roots, polynomials; every fourth is wrong."""
    match n % 4:
        case 0:
            return rf"\frac{{{n}}}{{{n + 1}}}", rf"\frac{{{n + 1}}}{{{n + 2}}}"
        case 1:
            return rf"\frac{{{n}}}{{{n + 1}}}", rf"\frac{{{2 * n}}}{{{2 * n + 2}}}"
        case 2:
            return rf"2\sqrt{{{n}}}", rf"\sqrt{{{4 * n}}}"
        case _:
            return f"(x+{n})^2", f"x^2+{2 * n}x+{n * n}"


def _calls(number: int) -> Iterator[JsonObject]:
    yield {"toolName": f"tool-{number % 7}", "paramList": {"query": f"tides {number}", "limit": 5}}


def _scaffold(gold: str) -> JsonObject:
    return {"task": "mol_und", "subtask": "Murcko_scaffold", "gt": gold}


def compare(answers: int) -> None:
    """Print one line per kind."""
    print(f"{'grading':<12}{'per second':>12}{'baseline':>12}{'ratio':>8}")
    for name, work, number in (
        ("mathematics", mathematics, answers),
        ("tool calls", tool_calls, 10 * answers),
        ("chemistry", chemistry, answers),
    ):
        ours, other = work(number)
        print(f"{name:<12}{ours:>12,.0f}{other:>12,.1f}{ours / other:>8.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--answers", type=int, default=2000)
    compare(parser.parse_args().answers)
