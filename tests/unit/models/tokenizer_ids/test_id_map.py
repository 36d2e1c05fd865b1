"""Which ids of a teacher are those of a student."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.models.tokenizer_ids.id_map import map_ids
from services.models.tokenizer_ids.prepared import load_json_tokenizer, vocabulary_of
from tests.support.models.permuted_model import permute_tokenizer
from tests.support.models.tokenizer_kinds import KINDS


@pytest.fixture
def student(tmp_path: Path) -> Path:
    return KINDS["llama3"].write(tmp_path / "student")


@pytest.fixture
def teacher(student: Path, tmp_path: Path) -> Callable[[Callable[[Any], None]], Path]:
    """A function that makes a copy of the student with a changed tokenizer.json."""

    def changed(change: Callable[[Any], None]) -> Path:
        folder = tmp_path / "teacher"
        shutil.copytree(student, folder)
        path = folder / "tokenizer.json"
        described = json.loads(path.read_text())
        change(described)
        path.write_text(json.dumps(described))
        return folder

    return changed


def test_the_same_tokens_in_another_order_are_found_by_their_texts(
    student: Path, tmp_path: Path
) -> None:
    new = permute_tokenizer(student, tmp_path / "teacher")

    ids = map_ids(student, tmp_path / "teacher")

    assert ids.to_teacher() == new
    assert not ids.is_identity
    text = "<|im_start|>user\nÉlève 123<|im_end|>"
    own, others = (
        load_json_tokenizer(folder / "tokenizer.json").encode(text).ids
        for folder in (student, tmp_path / "teacher")
    )
    assert [ids.to_teacher()[each] for each in own] == others


def test_a_teacher_may_have_more_tokens(
    student: Path, teacher: Callable[[Callable[[Any], None]], Path]
) -> None:
    def add(described: Any) -> None:
        more = {**described["added_tokens"][-1], "id": 5000, "content": "<more>"}
        described["added_tokens"].append(more)

    ids = map_ids(student, teacher(add))

    assert ids.is_identity
    assert set(ids.student) == set(vocabulary_of(student).values())


def test_tokens_that_a_teacher_lacks_are_named(
    student: Path, teacher: Callable[[Callable[[Any], None]], Path]
) -> None:
    def rename(described: Any) -> None:
        vocabulary = described["model"]["vocab"]
        described["model"]["merges"] = []
        for token in list(vocabulary)[5:9]:
            vocabulary[f"{token}~~"] = vocabulary.pop(token)

    words = {token: text for text, token in vocabulary_of(student).items()}
    with pytest.raises(InvalidRequest) as raised:
        map_ids(student, teacher(rename), "teacher")

    assert (raised.value.param, raised.value.code) == ("teacher", "vocabulary_differs")
    assert "it lacks 4 of the model's" in raised.value.message
    named = ", ".join(f"{token} {words[token]!r}" for token in (5, 6, 7))
    assert raised.value.message.endswith(f"first {named}")


def renamed(role: str) -> Callable[[Any], None]:
    """A change that gives the special token "</s>" another text."""

    def change(described: Any) -> None:
        for token in described["added_tokens"]:
            if token["content"] == "</s>":
                token["content"] = role
        vocabulary = described["model"]["vocab"]
        if "</s>" in vocabulary:
            vocabulary[role] = vocabulary.pop("</s>")

    return change


def test_special_tokens_of_other_texts_are_matched_by_their_role(
    student: Path, teacher: Callable[[Callable[[Any], None]], Path]
) -> None:
    folder = teacher(renamed("<|endoftext|>"))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["eos_token"] = "<|endoftext|>"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))

    assert map_ids(student, folder).is_identity

    config["eos_token"] = "<s>"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidRequest, match=r"it lacks 1 of .*'</s>'"):
        map_ids(student, folder)


def test_padding_needs_no_counterpart(
    student: Path, teacher: Callable[[Callable[[Any], None]], Path]
) -> None:
    folder = teacher(renamed("<fill>"))
    path = student / "tokenizer_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "eos_token": "<s>", "pad_token": "</s>"}))

    assert vocabulary_of(student)["</s>"] not in map_ids(student, folder).student


def written(folder: Path, vocabulary: dict[str, int], decoder: JsonObject) -> Path:
    """A folder with a tokenizer of these tokens."""
    folder.mkdir()
    described = {
        "version": "1.0",
        "added_tokens": [],
        "decoder": decoder,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(described))
    return folder


def test_bytes_are_compared_across_kinds_of_tokenizers(tmp_path: Path) -> None:
    words = {"a": 0, "\u0120a": 1, "\u00c3\u00a9": 2, "\u010a": 3}
    pieces = {"\u2581a": 0, "a": 1, "<0x0A>": 2, "\u00e9": 3, "z": 4}
    bytewise = {"add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    blanks = {"replacement": "\u2581", "prepend_scheme": "always", "split": True}
    student = written(tmp_path / "student", words, {"type": "ByteLevel", **bytewise})
    teacher = written(tmp_path / "teacher", pieces, {"type": "Metaspace", **blanks})

    assert map_ids(student, teacher).to_teacher() == {0: 1, 1: 0, 2: 3, 3: 2}
