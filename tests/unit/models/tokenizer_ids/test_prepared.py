"""Prepared tokenizers: what they keep, and when tokenizer.json alone decides their ids."""

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer

from services.contracts.errors import InvalidRequest
from services.models.tokenizer_ids.files import (
    copy_tokenizer,
    read_chat_templates,
    read_end_tokens,
    read_special_tokens,
)
from services.models.tokenizer_ids.prepared import (
    is_settled,
    one_template,
    prepare_tokenizer,
    speaks_as,
)
from services.rollouts.chat.template import ChatTemplate
from tests.support.models.tokenizer_kinds import KINDS

DEFAULT = "{% for m in messages %}{{ m.content }} {% endfor %}\n\n  "
WITH_TOOLS = "\n  {{ tools | length }}{% for m in messages %}\n{{ m.content }}{% endfor %}\n"
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A byte-level model declared as Llama's, with a chat template."""
    made = KINDS["r1_distill_llama"].write(tmp_path / "published")
    (made / "chat_template.jinja").write_text(DEFAULT)
    return made


def change(path: Path, **values: object) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**content, **values}))


def test_a_prepared_tokenizer_is_the_file_and_declares_no_class_of_its_own(
    folder: Path, tmp_path: Path
) -> None:
    change(folder / "tokenizer_config.json", legacy=True, added_tokens_decoder={"9": {}})

    prepared = prepare_tokenizer(folder, tmp_path / "prepared")

    config = json.loads((prepared / "tokenizer_config.json").read_bytes())
    assert config == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    assert (prepared / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    assert read_chat_templates(prepared) == read_chat_templates(folder)
    assert not (prepared / "config.json").exists()
    assert is_settled(prepared)


def test_preparing_again_leaves_nothing_of_the_former_tokenizer(
    folder: Path, tmp_path: Path
) -> None:
    target = tmp_path / "prepared"
    prepare_tokenizer(folder, target)
    (folder / "chat_template.jinja").unlink()

    assert read_chat_templates(prepare_tokenizer(folder, target)) == {}


def test_all_tokens_that_end_generation_are_kept(folder: Path, tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()
    change(folder / "generation_config.json", eos_token_id=[1, 2])
    change(weights / "generation_config.json", eos_token_id=3, temperature=0.6)
    change(weights / "config.json", eos_token_id=[2, 4])

    prepared = prepare_tokenizer(folder, tmp_path / "prepared", weights=weights)

    assert read_end_tokens(prepared) == (1, 2, 3, 4)


@pytest.mark.parametrize("tools", [[], [{"name": "a"}, {"name": "b"}]])
def test_a_template_for_tools_is_used_with_tools_only(tools: list[dict[str, str]]) -> None:
    one = one_template({"default": DEFAULT, "tool_use": WITH_TOOLS})

    assert one is not None
    expected = ChatTemplate(WITH_TOOLS if tools else DEFAULT, {}).render(HELLO, tools)
    assert ChatTemplate(one, {}).render(HELLO, tools) == expected


def test_a_special_token_that_the_file_lacks_is_left_out(folder: Path, tmp_path: Path) -> None:
    change(folder / "tokenizer_config.json", pad_token="[PAD]")

    prepared = prepare_tokenizer(folder, tmp_path / "prepared")

    assert "pad_token" not in read_special_tokens(prepared)
    assert is_settled(prepared)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"image_token": "<think>", "audio_token": "[A]"}, {"image_token": "<think>"}),
        (["<think>", {"content": "<s>"}, "world"], ["<think>", "<s>"]),
    ],
)
def test_further_special_tokens_of_the_file_are_kept(
    folder: Path, tmp_path: Path, given: object, kept: object
) -> None:
    change(folder / "tokenizer_config.json", extra_special_tokens=given)

    prepared = prepare_tokenizer(folder, tmp_path / "prepared")

    config = json.loads((prepared / "tokenizer_config.json").read_bytes())
    assert config["extra_special_tokens"] == kept


@pytest.mark.parametrize("vocabulary", [1, [1, [], ["a"], [["b"], 2]], None, "x"])
def test_a_vocabulary_of_another_shape_has_no_words(
    folder: Path, tmp_path: Path, vocabulary: object
) -> None:
    change(folder / "tokenizer.json", added_tokens=[], model={"vocab": vocabulary})

    with pytest.raises(InvalidRequest, match="eos_token"):
        prepare_tokenizer(folder, tmp_path / "prepared")


def test_a_template_for_tools_in_one_file_or_two_speaks_the_same(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text(WITH_TOOLS)

    assert speaks_as(prepare_tokenizer(folder, tmp_path / "prepared"), folder)


def test_an_end_token_that_the_file_lacks_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    change(folder / "tokenizer_config.json", eos_token="[END]")

    with pytest.raises(InvalidRequest, match=r"eos_token '\[END\]'"):
        prepare_tokenizer(folder, tmp_path / "prepared")


def test_a_special_token_among_the_plain_words_leaves_the_ids_open(
    folder: Path, tmp_path: Path
) -> None:
    change(folder / "tokenizer_config.json", pad_token="H")

    assert not is_settled(prepare_tokenizer(folder, tmp_path / "prepared"))


def test_a_tokenizer_that_was_written_again_speaks_as_before(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    copy_tokenizer(folder, copy)
    described = json.loads((copy / "tokenizer.json").read_text())
    del described["model"]["ignore_merges"]  # true in the file
    (copy / "tokenizer.json").write_text(json.dumps(described, indent=4))
    assert not speaks_as(copy, folder)

    described["model"] |= {"ignore_merges": True}
    described |= {"truncation": {"max_length": 5, "strategy": "LongestFirst", "stride": 0}}
    described["truncation"]["direction"] = "Right"
    (copy / "tokenizer.json").write_text(json.dumps(described, indent=2))

    assert speaks_as(copy, folder)


@pytest.mark.parametrize("change_of", ["token", "template"])
def test_another_token_or_template_speaks_differently(
    folder: Path, tmp_path: Path, change_of: str
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    copy_tokenizer(folder, copy)
    if change_of == "token":
        tokenizer = Tokenizer.from_file(str(copy / "tokenizer.json"))
        tokenizer.add_tokens([AddedToken("<new>")])
        tokenizer.save(str(copy / "tokenizer.json"))
    else:
        (copy / "chat_template.jinja").write_text("{{ messages }}")

    assert not speaks_as(copy, folder)


def test_copying_a_tokenizer_replaces_the_one_that_is_there(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    (target / "additional_chat_templates").mkdir(parents=True)
    (target / "additional_chat_templates" / "tool_use.jinja").write_text("old")
    (target / "vocab.json").write_text("{}")

    copy_tokenizer(folder, target)

    assert read_chat_templates(target) == read_chat_templates(folder)
    assert not (target / "vocab.json").exists()
