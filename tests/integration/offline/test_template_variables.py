"""Variables of a chat template mean the same wherever a conversation is rendered."""

import json
from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.training.rows import DataFormat, RowKind
from services.inference.clients.chat import ChatRequest
from services.rollouts.chat import open_chat_tokens
from services.trainer.offline.preparation import layout
from services.trainer.offline.rows.examples import ExampleReader
from services.trainer.offline.spec import TrainingSpec
from services.trainer.offline.tokenizer import load_tokenizer
from tests.support.chat_templates.families import FAMILIES

QUESTION = [{"role": "user", "content": "1+1?"}]
ANSWER = {"role": "assistant", "content": "2", "reasoning_content": ""}


def training_spec(folder: Path, **changes: object) -> TrainingSpec:
    content = {
        "job_id": "ftjob-test",
        "model": {"path": str(folder)},
        "training_data": {"path": "rows.jsonl"},
        "method": "full",
        "n_epochs": 1.0,
        "learning_rate": 1e-3,
        **changes,
    }
    return TrainingSpec.model_validate_json(json.dumps(content))


@pytest.mark.parametrize("thinks", [False, True])
def test_a_variable_gives_the_same_tokens_in_training_rollouts_and_evaluations(
    tmp_path: Path, thinks: bool
) -> None:
    folder = FAMILIES["qwen3"].write(tmp_path)
    variables = {"enable_thinking": thinks}
    tokenizer = load_tokenizer(folder)

    asked = training_spec(folder, chat_template_kwargs=variables)
    rendering = layout(asked, tokenizer).rendering
    assert rendering is not None
    assert rendering.chat_template is not None
    trained = list(rendering.encode(rendering.chat_template(QUESTION, [], prompt=True)).ids)
    # Online training opens the same chat tokens as rollouts.
    sampled = open_chat_tokens(folder, variables).prompt(QUESTION, ())
    # Evaluations leave the rendering to vLLM, which passes these fields to transformers.
    request = ChatRequest(model="m", messages=QUESTION, chat_template_kwargs=variables)
    served = tokenizer.apply_chat_template(
        request.messages,
        add_generation_prompt=True,
        return_dict=False,
        **(request.chat_template_kwargs or {}),
    )

    assert trained == sampled == served
    assert ("<think>" in tokenizer.decode(trained)) is not thinks


def test_a_variable_that_the_template_does_not_read_is_refused(tmp_path: Path) -> None:
    folder = FAMILIES["qwen2_5"].write(tmp_path)
    variables = {"enable_thinking": False}

    with pytest.raises(InvalidRequest, match="does not read enable_thinking"):
        layout(training_spec(folder, chat_template_kwargs=variables), load_tokenizer(folder))
    with pytest.raises(InvalidRequest, match="does not read enable_thinking"):
        open_chat_tokens(folder, variables)


def test_a_default_system_message_is_part_of_the_rendered_prompt(tmp_path: Path) -> None:
    folder = FAMILIES["qwen3"].write(tmp_path)
    tokenizer = load_tokenizer(folder)
    asked = training_spec(folder, arguments={"default_system": "Be brief."})
    reader = ExampleReader(RowKind.DEMONSTRATION, DataFormat.AUTO, layout(asked, tokenizer))

    (row,) = reader.read({"messages": [*QUESTION, ANSWER]}).rows

    system = {"role": "system", "content": "Be brief."}
    expected = tokenizer.apply_chat_template([system, *QUESTION], tokenize=False)
    assert row["conversations"][0]["value"].startswith(expected)
