"""Reading the configuration of a model's folder."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.retrieval.encoder.models.configuration import (
    ModelUnusable,
    Pooling,
    read_configuration,
)
from services.retrieval.encoder.models.loading import locate

STEPS = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Norm", "type": "sentence_transformers.models.Normalize"},
]
DENSE = {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"}


def write(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in {"config.json": {"model_type": "bert"}, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("content", "pooling"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, Pooling.MEAN),
        ({"pooling_mode_cls_token": True, "include_prompt": True}, Pooling.CLS),
        ({"pooling_mode": "mean", "embedding_dimension": 4}, Pooling.MEAN),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, Pooling.OTHER),
        ({"pooling_mode_lasttoken": True}, Pooling.OTHER),
    ],
)
def test_pooling_is_read_in_both_formats(
    tmp_path: Path, content: dict[str, Any], pooling: Pooling
) -> None:
    folder = write(tmp_path, {"modules.json": STEPS, "1_Pooling/config.json": content})

    assert read_configuration(folder).pooling is pooling


def test_a_bare_transformer_is_mean_pooled(tmp_path: Path) -> None:
    configuration = read_configuration(write(tmp_path, {}))

    assert configuration.plain
    assert configuration.pooling is Pooling.MEAN


def test_models_with_other_modules_are_not_plain(tmp_path: Path) -> None:
    assert read_configuration(write(tmp_path / "plain", {"modules.json": STEPS})).plain
    assert not read_configuration(
        write(tmp_path / "dense", {"modules.json": [*STEPS, DENSE]})
    ).plain


def test_the_model_own_prompts_and_limit_are_read(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        {
            "sentence_bert_config.json": {"max_seq_length": 128, "do_lower_case": True},
            "config_sentence_transformers.json": {"prompts": {"query": "Q: ", "document": "D: "}},
        },
    )

    configuration = read_configuration(folder)

    assert (configuration.query_prompt, configuration.passage_prompt) == ("Q: ", "D: ")
    assert configuration.token_limit == 128
    assert configuration.lower_case


@pytest.mark.parametrize(
    ("transformer", "tokenizer", "most"),
    [
        ({"model_type": "bert", "max_position_embeddings": 512}, {}, 512),
        ({"model_type": "bert", "max_position_embeddings": 512}, {"model_max_length": 99}, 99),
        ({"model_type": "bert", "max_position_embeddings": 512}, {"model_max_length": 1e30}, 512),
        ({"model_type": "xlm-roberta", "max_position_embeddings": 514}, {}, 512),
    ],
)
def test_the_limit_defaults_to_tokenizer_and_positions(
    tmp_path: Path, transformer: dict[str, Any], tokenizer: dict[str, Any], most: int
) -> None:
    folder = write(tmp_path, {"config.json": transformer, "tokenizer_config.json": tokenizer})

    assert read_configuration(folder).token_limit == most


def test_a_malformed_file_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path, {})
    (folder / "modules.json").write_text("[{")

    with pytest.raises(ModelUnusable, match=r"modules\.json"):
        read_configuration(folder)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnusable, match=r"config\.json"):
        locate(str(tmp_path))


@pytest.mark.parametrize("name", ["/no/such/folder", "../models/x", "a/b/c", "~nobody/x", "x y"])
def test_an_invalid_model_name_is_never_downloaded(name: str) -> None:
    with pytest.raises(ModelUnusable, match="no folder"):
        locate(name)
