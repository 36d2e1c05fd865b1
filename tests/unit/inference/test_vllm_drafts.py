"""Drafts of tokens: the arguments of an engine, what it counts, and switching them off."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from services.contracts.batches.prompt_batches import PromptBatch
from services.contracts.engine import Drafts, VllmOptions
from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.evaluations import CreateEvaluation
from services.contracts.rollouts.rollouts import CreateRollout
from services.core.artifacts import ModelSource
from services.core.process.runtimes import Accelerator, Runtime
from services.inference.vllm.counters import EngineCounters, engine_counters
from services.inference.vllm.draft_switch import DraftSwitch
from services.inference.vllm.launch import NO_ROUTES, Routes, plan_launch

EXPOSITION = """\
# HELP vllm:generation_tokens_total Number of generation tokens processed.
vllm:generation_tokens_total{engine="0",model_name="policy"} 100.0
vllm:generation_tokens_total{engine="1",model_name="policy"} 20.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="policy"} 80.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="policy"} 60.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 40.0
"""


def arguments(folder: Path, options: VllmOptions, routes: Routes = NO_ROUTES) -> dict[str, str]:
    """The arguments about drafts of a server."""
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text("{}")
    runtime = Runtime("vllm", folder / "vllm" / "bin" / "python", "1", Accelerator.CPU)
    given = plan_launch(
        runtime, ModelSource(path=model), "m", [], options, port=1, scratch=folder, routes=routes
    ).command
    pairs = dict(pairwise(given))
    return {
        name: pairs[name]
        for name in ("--speculative-config", "--worker-extension-cls")
        if name in pairs
    }


def test_drafts_are_those_of_the_options_and_are_switched_in_trainings_alone(
    tmp_path: Path,
) -> None:
    options = VllmOptions(speculation=Drafts(tokens=3, min_match=2, max_match=4))

    served = arguments(tmp_path, options)
    trained = arguments(tmp_path, options, Routes(weights=True))

    assert json.loads(served.pop("--speculative-config")) == {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
    }
    assert served["--worker-extension-cls"].endswith(".MendedWorker")
    assert trained["--worker-extension-cls"].endswith(".WeightWorker")


@pytest.mark.parametrize("speculation", ["auto", None])
def test_an_engine_starts_without_drafts(tmp_path: Path, speculation: str | None) -> None:
    options = VllmOptions.model_validate({"speculation": speculation})
    assert "--speculative-config" not in arguments(tmp_path, options, Routes(weights=True))


def test_suffix_drafts_need_their_package(tmp_path: Path) -> None:
    options = VllmOptions(speculation=Drafts(method="suffix", tokens=8))
    with pytest.raises(InvalidRequest, match="arctic-inference") as refused:
        arguments(tmp_path, options)
    assert refused.value.param == "engine.speculation.method"

    (tmp_path / "vllm/lib/python3.11/site-packages/arctic_inference").mkdir(parents=True)
    told = json.loads(arguments(tmp_path, options)["--speculative-config"])
    assert told == {"method": "suffix", "num_speculative_tokens": 8}


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens": 0},
        {"tokens": 33},
        {"min_match": 5, "max_match": 4},
        {"method": "suffix", "min_match": 2},
        {"method": "eagle"},
        {"draft_model": "a"},
    ],
)
def test_drafts_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Drafts.model_validate(wrong)


@pytest.mark.parametrize(
    ("asked", "matches"),
    [
        ({}, (2, 5)),
        ({"method": "suffix", "tokens": 8}, (2, 5)),
        ({"min_match": 7}, (7, 7)),
        ({"max_match": 1}, (1, 1)),
        ({"min_match": 3, "max_match": 4}, (3, 4)),
    ],
)
def test_drafts_are_the_same_when_their_job_is_read_again(
    asked: dict[str, object], matches: tuple[int, int]
) -> None:
    drafts = Drafts.model_validate(asked)

    assert drafts.matches == matches
    assert Drafts.model_validate(drafts.model_dump(mode="json")) == drafts


def test_tokens_are_counted_over_all_engines_and_since_a_restart() -> None:
    counted = engine_counters(EXPOSITION)

    assert counted == EngineCounters(generated=120.0, drafted=80.0, accepted=60.0)
    assert counted.accepted_length == 2.0
    assert counted.acceptance_rate == 0.75
    assert counted.since(EngineCounters(100.0, 80.0, 60.0)) == EngineCounters(20.0, 0.0, 0.0)
    assert counted.since(EngineCounters(1000.0, 900.0, 800.0)) == counted
    assert EngineCounters().accepted_length == EngineCounters().acceptance_rate == 0.0


class Drafter:
    def propose(self, count: int, sampled: list[list[int]], ends: object) -> list[list[int]]:
        return [[7] * count for _ in sampled]


class Worker(DraftSwitch):
    def __init__(self) -> None:
        self.model_runner = type("Runner", (), {"drafter": Drafter()})()

    def propose(self) -> list[list[int]]:
        proposed: list[list[int]] = self.model_runner.drafter.propose(2, [[1], [], [2, 3]], None)
        return proposed


def test_drafts_are_switched_off_and_on_again() -> None:
    worker = Worker()
    drafts = [[7, 7]] * 3

    assert worker.propose() == drafts
    for _ in range(2):
        worker.switch_drafts(on=False)
        assert worker.propose() == [[], [], []]
    worker.switch_drafts(on=True)
    assert worker.propose() == drafts


@pytest.mark.parametrize(
    "asked",
    [
        (CreateRollout, {"model": "m", "prompts": [{"question": "1 + 1"}]}),
        (CreateEvaluation, {"model": "m", "file": "file-1"}),
        (CreateEvaluation, {"model": "m", "benchmarks": [{"name": "b", "file": "file-1"}]}),
    ],
)
def test_answers_with_drafts_are_not_filtered_by_min_p(
    asked: tuple[type[BaseModel], dict[str, Any]],
) -> None:
    request, fields = asked
    filtered = {"sampling": {"min_p": 0.1}}
    drafted = {"engine": {"speculation": {"tokens": 2}}}

    with pytest.raises(ValidationError, match=r"min_p must be 0 with engine\.speculation"):
        request.model_validate({**fields, **filtered, **drafted})

    request.model_validate({**fields, **filtered})
    request.model_validate({**fields, **drafted})


def test_a_batch_of_prompts_with_drafts_is_not_filtered_by_min_p() -> None:
    options = {"speculation": {"tokens": 2}}
    batch = {
        "records": "in.jsonl",
        "output": "out.jsonl",
        "prompting": {"template": "t.yaml"},
        "engine": {"model": "m", "runtimes": "runtimes", "options": options},
    }

    with pytest.raises(ValidationError, match=r"min_p must be 0 with engine\.speculation"):
        PromptBatch.model_validate_json(json.dumps({**batch, "body": {"min_p": 0.1}}))

    PromptBatch.model_validate_json(json.dumps({**batch, "body": {}}))
