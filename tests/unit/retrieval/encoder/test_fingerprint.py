"""Fingerprints distinguish models."""

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
def test_changed_weights_or_tokenizer_change_the_fingerprint(folder: Path, name: str) -> None:
    before = fingerprint(folder, "query: ")
    (folder / name).write_bytes(b"other")

    assert fingerprint(folder, "query: ") != before


def test_prefixes_change_the_fingerprint(folder: Path) -> None:
    assert fingerprint(folder, "query: ", "") != fingerprint(folder, "", "query: ")


def test_location_and_onnx_file_do_not_change_the_fingerprint(folder: Path, tmp_path: Path) -> None:
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


def test_a_mismatch_names_both_encoders() -> None:
    with pytest.raises(EncoderMismatch, match=r"(?s)'small'.*'large'"):
        described("large", "b").require_same_vectors(described("small", "a"))


def test_a_description_reproduces_its_specification(folder: Path) -> None:
    description = described("small", "a")

    assert description.require_same_vectors(described("elsewhere/small", "a")) == description
    specification = description.specification()
    assert (specification.model, specification.max_tokens) == ("small", 64)
    assert (specification.query_prefix, specification.passage_prefix) == ("q: ", "")
