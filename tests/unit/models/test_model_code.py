"""Code that comes with a model is found, and refused unless the model is trusted."""

import json
from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest
from services.models.loadable import UNTRUSTED_CODE, check_code, code_files


def with_code(folder: Path, name: str, auto_map: object) -> Path:
    (folder / name).write_text(json.dumps({"auto_map": auto_map}))
    (folder / "modeling.py").write_text("")
    return folder


@pytest.mark.parametrize(
    ("name", "auto_map"),
    [
        ("config.json", {"AutoConfig": "modeling.Config"}),
        ("tokenizer_config.json", {"AutoTokenizer": ["modeling.Slow", None]}),
        ("processor_config.json", {"AutoProcessor": "modeling.Processor"}),
    ],
)
def test_code_of_an_untrusted_model_is_refused_naming_file_and_setting(
    tmp_path: Path, name: str, auto_map: object
) -> None:
    with_code(tmp_path, name, auto_map)

    with pytest.raises(InvalidRequest, match="TEMPER_TRUSTED_MODELS") as caught:
        check_code(tmp_path, trusted=False, name="own", entry="folder/own", param="teacher.model")

    assert (caught.value.code, caught.value.param) == (UNTRUSTED_CODE, "teacher.model")
    for part in ("'own'", f"auto_map in {name}", "'folder/own'"):
        assert part in caught.value.message


def test_a_program_for_generation_is_code_too(tmp_path: Path) -> None:
    (tmp_path / "custom_generate").mkdir()
    (tmp_path / "custom_generate" / "generate.py").write_text("")

    with pytest.raises(InvalidRequest, match="custom_generate"):
        check_code(tmp_path, trusted=False, name="own", entry="own")


def test_code_beside_the_weights_of_a_trusted_model_may_run(tmp_path: Path) -> None:
    with_code(tmp_path, "config.json", {"AutoConfig": "modeling.Config"})

    check_code(tmp_path, trusted=True, name="own", entry="own")

    assert code_files(tmp_path) == [tmp_path / "modeling.py"]


@pytest.mark.parametrize(
    "auto_map", [{"AutoModel": "lab/other--m.M"}, {"A": ["m.M", "lab/other--m.M"]}]
)
def test_code_of_another_repository_is_refused_even_to_a_trusted_model(
    tmp_path: Path, auto_map: object
) -> None:
    with_code(tmp_path, "config.json", auto_map)

    with pytest.raises(InvalidRequest, match="lab/other"):
        check_code(tmp_path, trusted=True, name="own", entry="own")


@pytest.mark.parametrize("content", ["{}", "[]", "{broken", '{"auto_map": {}}'])
def test_a_model_without_code_passes_and_its_python_files_are_not_its_code(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "config.json").write_text(content)
    (tmp_path / "convert.py").write_text("")

    check_code(tmp_path, trusted=False, name="plain", entry="plain")

    assert code_files(tmp_path) == []
