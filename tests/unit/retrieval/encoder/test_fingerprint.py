"""Telling models apart."""

import shutil
from pathlib import Path

import pytest

from services.retrieval.encoder.errors import EncoderMismatch
from services.retrieval.encoder.models.configuration import fingerprint
from services.retrieval.encoder.specification import Backend, EncoderDescription

FILES = {
    "config.json": b"{}",
    "modules.json": b"[]",
    "1_Pooling/config.json": b"{}",
    "tokenizer.json": b"{}",
    "model.safetensors": b"weights",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "model"


@pytest.mark.parametrize("name", FILES)
def test_a_change_of_what_decides_is_another_model(folder: Path, name: str) -> None:
    before = fingerprint(folder, "query: ")
    (folder / name).write_bytes(b"other")

    assert fingerprint(folder, "query: ") != before


def test_other_prefixes_are_another_model(folder: Path) -> None:
    assert fingerprint(folder, "query: ", "") != fingerprint(folder, "", "query: ")


def test_a_copy_elsewhere_is_the_same_model_and_so_is_one_with_an_onnx_file(
    folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "onnx").mkdir()
    (copy / "onnx" / "model.onnx").write_bytes(b"the same weights, written otherwise")
    (copy / "README.md").write_text("read me")

    assert fingerprint(copy) == fingerprint(folder)


def described(model: str, mark: str) -> EncoderDescription:
    return EncoderDescription(
        model=model,
        fingerprint=mark,
        dimension=4,
        query_prefix="q: ",
        passage_prefix="",
        max_tokens=64,
        backend=Backend.TORCH,
        device="cpu",
    )


def test_encoders_that_do_not_fit_are_both_named() -> None:
    with pytest.raises(EncoderMismatch, match=r"(?s)'small'.*'large'"):
        described("large", "b").checked_against(described("small", "a"))


def test_an_encoder_can_be_asked_for_again(folder: Path) -> None:
    description = described("small", "a")

    assert description.checked_against(described("elsewhere/small", "a")) == description
    specification = description.specification()
    assert (specification.model, specification.max_tokens) == ("small", 64)
    assert (specification.query_prefix, specification.passage_prefix) == ("q: ", "")
