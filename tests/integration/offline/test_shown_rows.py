"""Rows are shown as the installed LLaMA-Factory trains on them: the same tokens, the same loss."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from services.contracts.training.fine_tuning import Method
from services.contracts.training.offline import OfflineHyperparameters
from services.contracts.training.rows import DataFormat
from services.rollouts.chat.examples import ExampleReader, load_encoder
from services.trainer.offline.library.internals import llamafactory_module
from services.trainer.offline.library.plain_text import install_plain_text
from services.trainer.offline.spec import TrainingSpec
from tests.integration.llamafactory.tokenized_rows import library_rows
from tests.support.chat_templates.families import FAMILIES

Sequences = list[tuple[list[int], list[bool]]]

HARD = "na\u00efve \u65e5\u672c \U0001f469\u200d\U0001f52c <|im_end|>[INST]</s>  \n"


def turns(*contents: str, **last: Any) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]
    messages[-1] |= last
    return messages


DEMONSTRATIONS = [
    {"messages": turns("1+1?", "2")},
    {"messages": [{"role": "system", "content": "Be brief."}, *turns(HARD, HARD + "x")]},
    {"messages": turns("a", "b", "c " * 40, "d " * 40, "e", "f")},
    {"messages": [*turns("a", "not learned", weight=0), *turns("b", "learned")]},
    {"messages": turns("long " * 200, "short")},
    {"messages": turns("short", "long " * 200)},
]
PREFERENCES = [
    {
        "input": {"messages": turns("long " * length)},
        "preferred_output": turns("", "good " * preferred)[1:],
        "non_preferred_output": turns("", "bad " * rejected)[1:],
    }
    for length, preferred, rejected in ((1, 1, 90), (90, 2, 2), (60, 60, 5))
]
FEEDBACK = [
    {"messages": turns(HARD, "yes"), "label": True},
    {"messages": turns("long " * 100, "no " * 100), "label": False},
]
TEXT = [{"text": HARD}, {"text": "long " * 200}]


def library(folder: Path, tmp_path: Path, rows: Sequence[Any], method: Method) -> Any:
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = method.as_offline
    spec = {
        "job_id": "ftjob-test",
        "stage": settings.stage.value,
        "stage_arguments": settings.stage_arguments,
        "model": {"path": str(folder)},
        "training_data": {"path": str(data)},
        "method": "lora",
        "n_epochs": 1.0,
        "learning_rate": 1e-3,
        "max_seq_len": settings.max_seq_length,
        "neutralizes": settings.control_tokens == "neutralize",
        "chat_template_kwargs": settings.chat_template_kwargs,
        "arguments": settings.llamafactory,
    }
    return library_rows(TrainingSpec.model_validate_json(json.dumps(spec)), tmp_path)[1]


def sequences(rows: Any, prefix: str = "") -> Sequences:
    return [
        (row[f"{prefix}input_ids"], [label != -100 for label in row[f"{prefix}labels"]])
        for row in rows
    ]


def shown(folder: Path, rows: Sequence[Any], settings: OfflineHyperparameters, part: str) -> Any:
    reader = ExampleReader(folder, load_encoder(folder), settings, DataFormat.AUTO)
    found: Sequences = []
    for row in rows:
        for example in reader.read(row).sequences:
            assert example.tokens.cut >= 0
            if example.part == part:
                tokens = [token.id for token in example.tokens.tokens]
                found.append((tokens, example.tokens.mask))
    return found


def a_method(kind: str, **hyperparameters: Any) -> Method:
    return Method.model_validate({"type": kind, kind: {"hyperparameters": hyperparameters}})


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"train_on_prompt": True},
        {"mask_history": True},
        {"default_system": "You are terse."},
    ],
    ids=str,
)
def test_a_demonstration_is_shown_as_it_is_trained_on(
    tmp_path: Path, family: str, arguments: dict[str, Any]
) -> None:
    folder = FAMILIES[family].write(tmp_path)
    method = a_method("supervised", max_seq_length=96, llamafactory=arguments)

    trained = sequences(library(folder, tmp_path, DEMONSTRATIONS, method))

    assert shown(folder, DEMONSTRATIONS, method.as_offline, "conversation") == trained
    assert len(trained) >= len(DEMONSTRATIONS)


def test_variables_of_the_template_are_those_of_training(tmp_path: Path) -> None:
    folder = FAMILIES["qwen3"].write(tmp_path)
    method = a_method("supervised", chat_template_kwargs={"enable_thinking": False})

    trained = sequences(library(folder, tmp_path, DEMONSTRATIONS, method))

    assert shown(folder, DEMONSTRATIONS, method.as_offline, "conversation") == trained


def test_both_answers_of_a_preference_are_shown_as_they_are_trained_on(tmp_path: Path) -> None:
    folder = FAMILIES["qwen3"].write(tmp_path)
    method = a_method("dpo", max_seq_length=64)

    rows = library(folder, tmp_path, PREFERENCES, method)

    settings = method.as_offline
    assert shown(folder, PREFERENCES, settings, "preferred") == sequences(rows, "chosen_")
    assert shown(folder, PREFERENCES, settings, "rejected") == sequences(rows, "rejected_")


def test_an_answer_with_feedback_is_shown_as_it_is_trained_on(tmp_path: Path) -> None:
    folder = FAMILIES["qwen3"].write(tmp_path)
    method = a_method("kto", max_seq_length=64)

    trained = sequences(library(folder, tmp_path, FEEDBACK, method))

    assert shown(folder, FEEDBACK, method.as_offline, "answer") == trained


@pytest.mark.parametrize("packing", [False, True])
def test_text_is_shown_as_it_is_trained_on(tmp_path: Path, packing: bool) -> None:
    folder = FAMILIES["qwen3"].write(tmp_path)
    method = a_method("pretraining", max_seq_length=64, llamafactory={"packing": packing})

    trained = [row["input_ids"] for row in library(folder, tmp_path, TEXT, method)]

    texts = [tokens for tokens, _ in shown(folder, TEXT, method.as_offline, "text")]
    if packing:  # concatenated texts, split into sequences
        joined = [token for tokens in texts for token in tokens]
        size = len(trained[0])
        texts = [joined[begin : begin + size] for begin in range(0, len(joined), size)]
    assert texts == trained


@pytest.mark.parametrize(
    ("kind", "rows", "part", "prefix"),
    [
        ("supervised", DEMONSTRATIONS, "conversation", ""),
        ("dpo", PREFERENCES, "rejected", "rejected_"),
        ("kto", FEEDBACK, "answer", ""),
        ("pretraining", TEXT, "text", ""),
    ],
)
def test_neutralized_special_tokens_are_text_in_every_stage(
    tmp_path: Path, kind: str, rows: Sequence[Any], part: str, prefix: str
) -> None:
    folder = FAMILIES["qwen3"].write(tmp_path)
    forged = json.loads(json.dumps(rows).replace("long", "<|im_end|>"))
    packing = {"packing": False} if kind == "pretraining" else {}
    method = a_method(kind, max_seq_length=96, control_tokens="neutralize", llamafactory=packing)

    library_data = library(folder, tmp_path, forged, method)

    trained = [each[f"{prefix}input_ids"] for each in library_data]
    assert [ids for ids, _ in shown(folder, forged, method.as_offline, part)] == trained
    end = Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id("<|im_end|>")
    assert max(ids.count(end) for ids in trained) <= 6  # those of turns, and of a text's end


def test_the_end_of_a_text_is_trained_where_it_is_the_padding(tmp_path: Path) -> None:
    install_plain_text()
    collator: Any = llamafactory_module("train.pt.workflow").DataCollatorForLanguageModeling
    tokenizer = AutoTokenizer.from_pretrained(FAMILIES["qwen3"].write(tmp_path))
    tokenizer.pad_token = tokenizer.eos_token
    end = tokenizer.eos_token_id
    texts = [{"input_ids": [5, 6, end], "attention_mask": [1, 1, 1]}]
    texts += [{"input_ids": [5, end], "attention_mask": [1, 1]}]

    batch = collator(tokenizer=tokenizer, mlm=False)(texts)

    assert batch["labels"].tolist() == [[5, 6, end], [5, end, -100]]
