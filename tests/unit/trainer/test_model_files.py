import json
from pathlib import Path

import pytest

from services.core.artifacts import ModelSource
from services.trainer.model_files import collect_model, name_base, remove_unfinished


def saved(output: Path, **files: str) -> Path:
    output.mkdir(exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (output / name).write_text("{}")
    for name in ("training_args.bin", "README.md", "trainer_log.jsonl"):
        (output / name).write_text("not a model")
    for name, content in files.items():
        (output / name.replace("__", ".")).write_text(content)
    return output


def full(output: Path) -> Path:
    return saved(
        output,
        model__safetensors="weights",
        config__json="{}",
        generation_config__json='{"eos_token_id": 1, "temperature": 0.6}',
    )


def adapter(output: Path, **settings: object) -> Path:
    return saved(
        output, adapter_model__safetensors="weights", adapter_config__json=json.dumps(settings)
    )


def test_only_files_that_loaders_read_are_collected(tmp_path: Path) -> None:
    model = collect_model(full(tmp_path), [1, 7])

    assert {path.name for path in model.directory.iterdir()} == {
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_custom_code_of_a_trusted_model_is_kept_beside_it(tmp_path: Path) -> None:
    full(tmp_path)
    (tmp_path / "config.json").write_text('{"auto_map": {"AutoModel": "modeling.M"}}')
    (tmp_path / "modeling.py").write_text("class M: ...")

    model = collect_model(tmp_path, [1])

    assert (model.directory / "modeling.py").is_file()


def test_generation_stops_at_end_of_turn_tokens(tmp_path: Path) -> None:
    model = collect_model(full(tmp_path), [1, 7])

    settings = json.loads((model.directory / "generation_config.json").read_text())
    assert settings == {"eos_token_id": [1, 7], "temperature": 0.6}


def test_collecting_after_an_interruption_is_idempotent(tmp_path: Path) -> None:
    first = collect_model(full(tmp_path), [1])
    names = {path.name for path in first.directory.iterdir()}

    again = collect_model(tmp_path, [1])

    assert {path.name for path in again.directory.iterdir()} == names


@pytest.mark.parametrize(
    ("settings", "needs_merge"),
    [
        ({"r": 8}, False),
        ({"modules_to_save": ["embed_tokens"]}, True),
        ({"use_dora": True}, True),
        ({"init_lora_weights": "pissa_niter_16"}, True),
        ({"init_lora_weights": True}, False),
    ],
)
def test_an_adapter_records_whether_it_must_be_merged(
    tmp_path: Path, settings: dict[str, object], needs_merge: bool
) -> None:
    assert collect_model(adapter(tmp_path, **settings), [1]).needs_merge is needs_merge


@pytest.mark.parametrize(
    ("base", "name", "revision"),
    [
        (ModelSource(hub_id="owner/base", revision="v1"), "owner/base", "v1"),
        (ModelSource(path=Path("/models/base")), "/models/base", None),
    ],
)
def test_an_adapter_names_its_base_portably(
    tmp_path: Path, base: ModelSource, name: str, revision: str | None
) -> None:
    model = collect_model(adapter(tmp_path, r=8, base_model_name_or_path="/models/base"), [1])

    name_base(model.directory, base)

    config = json.loads((model.directory / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config.get("revision")) == (name, revision)
    assert config["r"] == 8


def test_a_model_without_safetensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="safetensors"):
        collect_model(saved(tmp_path), [])


def test_an_incomplete_model_is_removed(tmp_path: Path) -> None:
    collect_model(full(tmp_path), [1])
    full(tmp_path)

    remove_unfinished(tmp_path)

    assert not (tmp_path / "model").exists()
    assert not (tmp_path / "model.safetensors").exists()
