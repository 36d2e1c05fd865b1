"""A model whose text has other ids in one runtime than in another is not registered."""

import json
from pathlib import Path

import pytest

from services.api.models.tokenizers import check_registered_tokenizer
from services.contracts.errors import InvalidRequest
from services.contracts.models.registered import RegisterModel
from services.core.settings import Settings
from services.models.tokenizer_ids import compare
from services.models.tokenizer_ids.compare import RuntimeIds
from tests.support.models.tokenizer_kinds import KINDS


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a host with all runtimes; the tests replace what would be started in them."""
    for name in ("training", "vllm", "encoder"):
        python = tmp_path / "runtimes" / name / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch()
        stamp = {"version": "1", "accelerator": "cpu"}
        (python.parents[1] / "runtime.json").write_text(json.dumps(stamp))
    return Settings(home=tmp_path, models_root=tmp_path / "models")


def write_model(settings: Settings, **configuration: object) -> RegisterModel:
    folder = KINDS["llama3"].write(settings.models_folder / "published")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **configuration}))
    (folder / "model.safetensors").touch()
    return RegisterModel(id="published", folder="published")


def test_a_model_with_different_ids_is_refused_naming_class_and_text(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = write_model(settings, pad_token="H")

    def encode(python: Path, asked: list[tuple[Path, list[str]]]) -> list[RuntimeIds]:
        first = 1 if "vllm" in str(python) else 2
        built = [[first] if text == "Hello world" else [] for text in asked[0][1]]
        return [RuntimeIds(class_name="LlamaTokenizer", built=built)]

    monkeypatch.setattr(compare, "encode_in", encode)

    with pytest.raises(InvalidRequest, match=r"'Hello world'.*LlamaTokenizer") as no:
        check_registered_tokenizer(request, settings)

    assert (no.value.code, no.value.param) == ("tokenizer_differs", "folder")


def test_a_model_whose_vectors_two_runtimes_compute_is_compared_in_both(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = write_model(settings)
    (settings.models_folder / "published" / "modules.json").write_text("[]")
    asked_in = []

    def encode(python: Path, asked: list[tuple[Path, list[str]]]) -> list[RuntimeIds]:
        ((folder, texts),) = asked
        asked_in.append(python.parents[1].name)
        assert folder == settings.models_folder / "published"  # as it is loaded
        first = 1 if "vllm" in asked_in else 2
        built = [[len(asked_in)] for _ in texts]
        return [RuntimeIds(class_name="BertTokenizer", built=built, plain=[[first]] * len(texts))]

    monkeypatch.setattr(compare, "encode_in", encode)

    with pytest.raises(InvalidRequest, match=r"BertTokenizer in the runtime encoder"):
        check_registered_tokenizer(request, settings)

    assert asked_in == ["vllm", "encoder"]


def test_nothing_is_started_for_a_model_whose_file_decides(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "encode_in", None)

    check_registered_tokenizer(write_model(settings), settings)


@pytest.mark.parametrize("content", ["{}", "\x00", "[]"])
def test_a_broken_tokenizer_is_left_to_the_jobs_that_load_it(
    settings: Settings, content: str
) -> None:
    request = write_model(settings)
    (settings.models_folder / "published" / "tokenizer.json").write_text(content)

    check_registered_tokenizer(request, settings)
