import json
from pathlib import Path
from typing import Any

import pytest

from services.api.fine_tuning.service import check_targets
from services.contracts.errors import InvalidRequest
from services.contracts.training.fine_tuning import Method
from services.core.artifacts import ModelSource
from services.models.registry import ResolvedModel


@pytest.fixture
def model(tmp_path: Path) -> ResolvedModel:
    """A model in two files, of which only the headers are read."""
    layer = "model.layers.0"
    write(tmp_path / "model-1.safetensors", f"{layer}.self_attn.q_proj", f"{layer}.mlp.up_proj")
    write(tmp_path / "model-2.safetensors", "model.embed_tokens")
    return ResolvedModel("tiny", "tiny", ModelSource(path=tmp_path))


def write(path: Path, *modules: str) -> None:
    tensor = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    header = json.dumps({"__metadata__": {}, **{f"{name}.weight": tensor for name in modules}})
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode())


def supervised(**hyperparameters: Any) -> Method:
    content = {"type": "supervised", "supervised": {"hyperparameters": hyperparameters}}
    return Method.model_validate(content)


def reinforcement(**lora: Any) -> Method:
    optimizer = {"training_type": "lora", "lora": lora}
    content = {
        "rewards": [{"name": "rule", "reward": {"type": "retool"}}],
        "hyperparameters": {"optimizer": optimizer},
    }
    return Method.model_validate({"type": "reinforcement", "reinforcement": content})


@pytest.mark.parametrize(
    ("method", "field"),
    [
        (supervised(lora={"target_modules": ["q_proj", "proj"]}), "lora.target_modules"),
        (supervised(llamafactory={"lora_target": "up_proj,w_pack"}), "llamafactory.lora_target"),
        (supervised(llamafactory={"additional_target": "head"}), "llamafactory.additional_target"),
        (reinforcement(target_modules=["W_pack"]), "optimizer.lora.target_modules"),
    ],
)
def test_a_target_that_is_no_module_is_refused_with_those_that_are(
    method: Method, field: str, model: ResolvedModel
) -> None:
    with pytest.raises(InvalidRequest, match="which has embed_tokens, q_proj, up_proj") as raised:
        check_targets(method, model)

    assert raised.value.param == f"method.{method.type.value}.hyperparameters.{field}"


@pytest.mark.parametrize(
    "method",
    [
        supervised(),
        supervised(lora={"target_modules": ["q_proj", "mlp.up_proj", "lm_head"]}),
        supervised(llamafactory={"lora_target": "all", "additional_target": "embed_tokens"}),
        supervised(training_type="full", lora={"target_modules": ["nothing"]}),
        reinforcement(target_modules=["q_proj"]),
    ],
)
def test_modules_of_the_model_are_accepted(method: Method, model: ResolvedModel) -> None:
    check_targets(method, model)


def test_a_model_whose_weights_are_not_here_is_left_to_the_job(tmp_path: Path) -> None:
    asked = supervised(lora={"target_modules": ["nothing"]})

    check_targets(asked, None)
    check_targets(asked, ResolvedModel("far", "far", ModelSource(hub_id="owner/name")))
    check_targets(asked, ResolvedModel("empty", "empty", ModelSource(path=tmp_path)))
