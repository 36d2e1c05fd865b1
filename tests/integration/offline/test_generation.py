"""Answers are generated and graded while a model trains."""

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from services.contracts.llamafactory.names import Stage
from services.trainer.offline import generation
from services.trainer.offline.generation import GenerationPrompt, GenerationSetup, generate
from services.trainer.offline.grading import AnswerPair
from services.trainer.offline.tokenizer import load_tokenizer
from tests.support.runtime.runtime_tests import CORE_PYTHON
from tests.support.training.offline import OfflineJob, rows_of

QUESTIONS = ["1+1?", "What is the sum of eleven and thirty-one?", "Say it."]


def ungraded(answers: Sequence[AnswerPair]) -> dict[str, float]:
    raise AssertionError(answers)


def answered(base: Path, batch_size: int, answer: str = "42<|im_end|>") -> list[str]:
    tokenizer = load_tokenizer(base)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)

    def ids(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    asked = [GenerationPrompt(ids(question), ids(answer)) for question in QUESTIONS]
    settings = GenerationSetup(12, {}, (tokenizer.eos_token_id,), ungraded)
    answers = generate(model, tokenizer, asked, settings, batch_size=batch_size, seed=1)
    assert {each.reference for each in answers} == {answer.removesuffix("<|im_end|>")}
    return [each.text for each in answers]


def test_batched_generation_matches_single_prompts(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = answered(base, batch_size=1)

    assert answered(base, batch_size=3) == alone

    def right_padded(rows: Sequence[list[int]], padding: int) -> Any:
        width = max(map(len, rows))
        ids = [row + [padding] * (width - len(row)) for row in rows]
        mask = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
        return torch.tensor(ids), torch.tensor(mask)

    monkeypatch.setattr(generation, "left_padded", right_padded)
    assert answered(base, batch_size=3) != alone  # as the library pads while it trains


def test_every_special_token_ends_an_answer_unless_answers_contain_it(base: Path) -> None:
    tokenizer = load_tokenizer(base)
    begin, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    plain = [GenerationPrompt([1], [2, end])]

    assert {begin, end} <= generation._stops(tokenizer, (), plain)
    assert begin not in generation._stops(
        tokenizer, (), [*plain, GenerationPrompt([1], [begin, 2, end])]
    )


def test_only_the_last_turn_of_a_conversation_of_several_rows_is_answered() -> None:
    settings = GenerationSetup(1, {}, (), ungraded, {"validation": {0, 1}, "chat": {2}})
    rows = [{"input_ids": [9, n, n], "labels": [-100, n, n]} for n in range(4)]

    def answers(prefix: str) -> list[int]:
        found = generation.prompts(rows, settings.earlier(prefix))
        return [each.answer[0] for each in found]

    assert answers("eval") == [2, 3]
    assert answers("eval_chat") == [0, 1, 3]
    assert answers("eval_other") == [0, 1, 2, 3]


def test_training_reports_generated_metrics_and_stops_early_by_one(
    base: Path, tmp_path: Path
) -> None:
    validation = tmp_path / "validation.jsonl"
    rows = rows_of(Stage.SFT, 3)
    validation.write_text("".join(json.dumps(row) + "\n" for row in rows))
    job = OfflineJob(
        tmp_path / "job",
        base,
        Stage.SFT,
        learning_rate=1e-12,  # nothing improves
        n_epochs=4.0,
        validation_data={"path": str(validation)},
        generation={
            "max_tokens": 4,
            "grader": {"type": "regex", "pattern": ".*"},
            "python": os.environ[CORE_PYTHON],
        },
        arguments={
            **{"eval_steps": 2, "save_steps": 2, "logging_steps": 1},
            **{"load_best_model_at_end": True, "metric_for_best_model": "rouge-1"},
            "early_stopping_steps": 2,
        },
    )

    result = job.run()

    assert result["stopped_early"]
    assert result["global_step"] == 6 < result["max_steps"]
    evaluated = [entry for entry in job.metrics() if "eval_rouge-1" in entry]
    assert [entry["step"] for entry in evaluated] == [2, 4, 6, 6]
    # The last evaluation is of the best checkpoint, after the training.
    assert evaluated[-1]["eval_rouge-1"] == evaluated[0]["eval_rouge-1"]
    assert evaluated[0]["eval_loss"] > 0
    assert evaluated[0]["eval_score"] == 1.0  # the pattern is in every answer
    with (job.folder / "step_metrics.csv").open() as file:
        table = list(csv.DictReader(file))
    assert float(table[1]["valid_rouge-1"]) == evaluated[0]["eval_rouge-1"]
    assert float(table[1]["valid_loss"]) == evaluated[0]["eval_loss"]
