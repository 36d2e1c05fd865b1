"""What a training renders and encodes is what its model is saved with, for serving and more."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.names import Stage
from services.models.tokenizer_ids.files import read_chat_templates
from services.rollouts.chat import open_chat_tokens
from tests.support.models.tokenizer_kinds import KINDS
from tests.support.training.offline import OfflineJob

ASKED = {"role": "user", "content": "One?"}
SYSTEM = {"role": "system", "content": "Be brief."}
ALPACA = "Below is an instruction that describes a task. Write a response that appropriately "
ALPACA += "completes the request.\n\n### Instruction:\nOne?\n\n### Response:\n"
NEW = "<new>"


def prepared(base: Path, job_dir: Path, stage: Stage = Stage.SFT, **changes: Any) -> Path:
    """The folder that a training takes its tokenizer and chat template from."""
    from services.trainer.offline.tokenizer import training_tokenizer

    job = OfflineJob(job_dir, base, stage, **changes)
    return training_tokenizer(job.spec, base, job.context)


def prompt(folder: Path, *messages: dict[str, str]) -> str:
    chat = open_chat_tokens(folder)
    return chat.text(chat.prompt(messages or [ASKED], []))


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A byte-level model declared as Llama's, without a chat template."""
    return KINDS["r1_distill_llama"].write(tmp_path / "plain")


def test_training_encodes_as_the_file_says(plain: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    from services.trainer.offline.tokenizer import load_tokenizer

    (plain / "chat_template.jinja").write_text("{{ messages[0].content }}")
    text = "  a  b\n\n e\u0301"
    expected = Tokenizer.from_file(str(plain / "tokenizer.json")).encode(text, None, False, False)
    assert AutoTokenizer.from_pretrained(plain).encode(text, add_special_tokens=False) != (
        expected.ids
    )

    tokenizer = load_tokenizer(prepared(plain, tmp_path / "job"))

    assert tokenizer.encode(text, add_special_tokens=False) == expected.ids


@pytest.mark.parametrize("own", [None, "chatml"])
def test_a_named_template_is_what_the_model_is_served_with(
    own: str | None, base: Path, plain: Path, tmp_path: Path
) -> None:
    model = base if own else plain

    assert prompt(prepared(model, tmp_path / "job", template="alpaca")) == ALPACA


def test_what_a_named_template_does_not_render_is_refused(plain: Path, tmp_path: Path) -> None:
    chat = open_chat_tokens(prepared(plain, tmp_path / "job", template="alpaca"))

    with pytest.raises(InvalidRequest, match="without a way to write the role tool"):
        chat.prompt([ASKED, {"role": "tool", "content": "3"}], [])


def test_a_template_that_cannot_be_written_is_warned_of_and_refuses_conversations(
    plain: Path, tmp_path: Path
) -> None:
    folder = prepared(plain, tmp_path / "job", template="deepseekr1")

    with pytest.raises(InvalidRequest, match="template deepseekr1 cannot be written"):
        prompt(folder)
    assert "deepseekr1" in (tmp_path / "job" / "reports.jsonl").read_text()


def test_a_default_system_message_of_training_is_part_of_the_template(
    base: Path, tmp_path: Path
) -> None:
    system = 'It\'s "brief" \\ {{ always }}\nand clear.'
    folder = prepared(base, tmp_path / "job", arguments={"default_system": system})

    assert prompt(folder) == prompt(base, {"role": "system", "content": system}, ASKED)
    assert prompt(folder, SYSTEM, ASKED) == prompt(base, SYSTEM, ASKED)


def test_the_variables_of_a_reward_model_are_part_of_its_template(
    base: Path, tmp_path: Path
) -> None:
    shown = "{{ [brief, words] }}"
    model = tmp_path / "model"
    shutil.copytree(base, model)
    (model / "chat_template.jinja").write_text(shown)
    variables = {"brief": True, "words": 'it\'s "so"\n'}
    changes: dict[str, Any] = {"chat_template_kwargs": variables}

    scored = prepared(model, tmp_path / "rm", stage=Stage.RM, **changes)
    written = prepared(model, tmp_path / "sft", **changes)

    assert prompt(scored) == str(list(variables.values()))
    assert read_chat_templates(written) == read_chat_templates(model)


def test_an_adapter_is_saved_and_continued_with_its_template_and_tokens(
    base: Path, tmp_path: Path
) -> None:
    changes: dict[str, Any] = {"method": "lora", "template": "alpaca"}
    changes |= {"arguments": {"add_tokens": NEW, "max_steps": 2, "save_steps": 1}}
    first = OfflineJob(tmp_path / "first", base, Stage.SFT, **changes).run()

    adapter = tmp_path / "first" / first["model_dir"]
    checkpoint = tmp_path / "first" / "output" / "checkpoint-1"
    for folder in (adapter, checkpoint):
        assert prompt(folder) == ALPACA
        assert Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id(NEW) is not None
    assert first["needs_merge"]  # it has embeddings of its own
    settings = json.loads((adapter / "adapter_config.json").read_bytes())
    assert settings["base_model_name_or_path"] == str(base)

    model = {"path": str(base), "tokenizer": str(adapter)}
    again = {"method": "lora", "adapter": str(adapter), "arguments": {"max_steps": 1}}
    second = OfflineJob(tmp_path / "second", base, Stage.SFT, model=model, **again).run()

    continued = tmp_path / "second" / second["model_dir"]
    assert prompt(continued) == ALPACA
    assert read_chat_templates(continued) == read_chat_templates(adapter)


def test_added_tokens_are_those_that_rows_are_cut_and_reported_with(
    base: Path, tmp_path: Path
) -> None:
    from services.trainer.offline.tokenizer import adds_tokens

    arguments = {"add_tokens": f"{NEW}, ", "add_special_tokens": "<|more|>"}
    job = OfflineJob(tmp_path / "job", base, Stage.SFT, arguments=arguments)
    folder = prepared(base, tmp_path / "job", arguments=arguments)

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    added = {
        token.content: token.special for token in tokenizer.get_added_tokens_decoder().values()
    }
    assert {NEW: False, "<|more|>": True}.items() <= added.items()
    assert adds_tokens(job.spec, folder, base)
    own = Tokenizer.from_file(str(base / "tokenizer.json"))
    assert own.token_to_id(NEW) is None  # the model's own file is as it was
    assert not adds_tokens(job.spec, prepared(base, tmp_path / "plain"), base)


def test_a_chat_template_that_nobody_chose_is_not_added_and_end_tokens_are_kept(
    base: Path, tmp_path: Path
) -> None:
    model = tmp_path / "without"
    model.mkdir()
    for path in base.iterdir():
        if path.name not in {"chat_template.jinja", "generation_config.json"}:
            (model / path.name).symlink_to(path)
    (model / "generation_config.json").write_text(json.dumps({"eos_token_id": [258, 5]}))

    result = OfflineJob(tmp_path / "job", model, Stage.PT, arguments={"max_steps": 1}).run()

    assert read_chat_templates(tmp_path / "job" / result["model_dir"]) == {}
    assert set(result["stop_token_ids"]) >= {258, 5}
