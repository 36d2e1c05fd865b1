"""The seeds that answers without tools are sampled with."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from services.contracts.rewards.graders import ExactGrader
from services.contracts.sampling import Sampling
from services.evaluator.evaluation.endpoint import Endpoint
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.evaluation.spec import BenchmarkSpec
from services.inference.clients.chat import ChatCompletion, ChatRequest, InferenceClient
from services.inference.seeds import derived_seed

Place = tuple[int, int]
"""A row, and the number of its sample."""
QUESTION = {"role": "user", "content": "2+2="}
SEED = st.integers(0, 2**31 - 1)
PLACES = st.lists(
    st.tuples(st.integers(0, 100_000), st.integers(0, 63)), min_size=2, max_size=6, unique=True
)


class Recorder:
    """A client that keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> ChatCompletion:
        self.requests.append(request)
        return ChatCompletion("4", "stop", None, (), 0.1, 1)


def seeds(seed: int | None, places: Sequence[Place], model: str = "m") -> dict[Place, int | None]:
    """The seeds of samples that are asked in this order."""
    spec = BenchmarkSpec(
        samples=Path("rows"),
        grader=ExactGrader(type="exact"),
        sampling=Sampling(temperature=1.0, seed=seed),
    )
    recorder = Recorder()
    endpoint = Endpoint(cast(InferenceClient, recorder), model, spec)

    async def ask_all() -> None:
        for row, sample in places:
            await endpoint.ask([QUESTION], EvaluationSample(row, (), (), {}, sample))

    asyncio.run(ask_all())
    assert {each.model for each in recorder.requests} == {model}
    return dict(zip(places, (each.seed for each in recorder.requests), strict=True))


@settings(max_examples=20, deadline=None)
@given(seed=SEED, places=PLACES)
def test_every_sample_of_every_row_has_a_seed_of_its_own(seed: int, places: list[Place]) -> None:
    drawn = list(seeds(seed, places).values())

    assert all(each is not None and 0 <= each < 2**31 for each in drawn)
    assert len(set(drawn)) == len(places)


@settings(max_examples=20, deadline=None)
@given(seed=SEED, places=PLACES)
def test_seeds_depend_on_neither_the_model_nor_the_order_nor_what_was_asked_before(
    seed: int, places: list[Place]
) -> None:
    drawn = seeds(seed, places)

    assert seeds(seed, places[::-1], "another model") == drawn
    assert seeds(seed, places[1:]) == {place: drawn[place] for place in places[1:]}


def test_other_seeds_of_an_evaluation_draw_other_answers() -> None:
    places = [(row, sample) for row in range(50) for sample in range(8)]
    drawn = [each for seed in range(4) for each in seeds(seed, places).values()]

    assert len(set(drawn)) == len(drawn), "one evaluation's second sample is no other's first"
    assert set(seeds(None, places).values()) == {None}


def test_an_answer_without_tools_has_the_seed_of_the_first_turn_with_tools() -> None:
    assert seeds(5, [(3, 2)]) == {(3, 2): derived_seed(5, 3, 2, 0) % 2**31}
