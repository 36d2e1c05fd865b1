"""Only folders that the operator put under the model root can become models."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.api.models.folders import inspect_folder
from services.contracts.errors import InvalidRequest
from services.contracts.models.registered import ModelKind


def make_model(folder: Path, config: str = "config.json") -> None:
    folder.mkdir(parents=True)
    (folder / config).write_text('{"model_type": "x"}')
    (folder / "model.safetensors").touch()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "models"
    make_model(root / "tiny")
    make_model(root / "owner" / "adapter", "adapter_config.json")
    make_model(tmp_path / "outside")
    return root


@pytest.mark.parametrize(
    ("name", "found", "kind"),
    [
        ("tiny", "tiny", ModelKind.FULL),
        ("./tiny/", "tiny", ModelKind.FULL),
        ("owner//adapter", "owner/adapter", ModelKind.ADAPTER),
    ],
)
def test_a_folder_under_the_root_is_a_model(
    root: Path, name: str, found: str, kind: ModelKind
) -> None:
    folder = inspect_folder(root, name)

    assert (folder.name, folder.kind) == (found, kind)


@pytest.mark.parametrize("name", ["quantized", "quantized/model.gguf"])
def test_a_gguf_file_or_the_folder_of_one_is_a_model_to_convert(root: Path, name: str) -> None:
    (root / "quantized").mkdir()
    (root / "quantized/model.gguf").write_bytes(b"GGUF\x03\0\0\0")

    folder = inspect_folder(root, name)

    assert (folder.name, folder.kind) == ("quantized/model.gguf", ModelKind.GGUF)


def test_what_is_no_single_gguf_file_is_refused(root: Path) -> None:
    (root / "quantized").mkdir()
    (root / "quantized/model.gguf").write_bytes(b"PK\x03\x04")
    with pytest.raises(InvalidRequest, match=r"model\.gguf is not a GGUF file"):
        inspect_folder(root, "quantized")

    (root / "quantized/other.gguf").write_bytes(b"GGUF")
    with pytest.raises(InvalidRequest, match=r"name one of model\.gguf, other\.gguf"):
        inspect_folder(root, "quantized")
    assert inspect_folder(root, "quantized/other.gguf").kind is ModelKind.GGUF

    make_model(root / "both")
    (root / "both/model.gguf").write_bytes(b"GGUF")
    assert inspect_folder(root, "both").kind is ModelKind.FULL  # what is ready is taken


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "tiny/../../outside",
        "/etc",
        "..",
        ".",
        "",
        "owner",
        "absent",
        "tiny\0",
        "tiny/config.json",
        "tiny/config.json/x",
        "~",
        "x" * 300,
        "x/" * 3000,
    ],
)
def test_other_names_are_rejected(root: Path, name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        inspect_folder(root, name)

    assert caught.value.param == "folder"


def test_an_absolute_path_is_rejected_even_under_the_root(root: Path) -> None:
    with pytest.raises(InvalidRequest, match="relative"):
        inspect_folder(root, str(root / "tiny"))


def test_links_out_of_the_root_are_rejected(root: Path, tmp_path: Path) -> None:
    (root / "inner").symlink_to("tiny")
    (root / "outer").symlink_to(tmp_path / "outside")
    (root / "up").symlink_to("..")
    (root / "circle").symlink_to("circle")

    assert inspect_folder(root, "inner").name == "tiny"
    for name in ("outer", "up", "up/outside", "circle"):
        with pytest.raises(InvalidRequest):
            inspect_folder(root, name)


def test_the_root_may_be_a_symbolic_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)

    assert inspect_folder(tmp_path / "link", "tiny").name == "tiny"


def test_a_folder_with_pickled_weights_is_rejected(root: Path) -> None:
    (root / "tiny" / "model.safetensors").rename(root / "tiny" / "pytorch_model.bin")

    with pytest.raises(InvalidRequest, match=r"no \*\.safetensors"):
        inspect_folder(root, "tiny")


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "\xff", "[" * 100_000])
def test_a_model_configuration_must_be_a_json_object(root: Path, content: str) -> None:
    (root / "tiny" / "config.json").write_text(content, encoding="latin-1")

    with pytest.raises(InvalidRequest):
        inspect_folder(root, "tiny")


def test_an_oversized_model_configuration_is_rejected(root: Path) -> None:
    with open(root / "tiny" / "config.json", "wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(InvalidRequest, match="too large"):
        inspect_folder(root, "tiny")


@pytest.fixture(scope="module")
def single_model_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one model; its sibling folder must never be reached."""
    folder = tmp_path_factory.mktemp("single_model_root")
    make_model(folder / "root" / "a")
    make_model(folder / "b")
    return folder / "root"


@settings(deadline=None)
@given(parts=st.lists(st.sampled_from(["a", "b", "..", ".", "", "/", "\\", "\0", "~", "root"])))
def test_no_name_escapes_the_root(single_model_root: Path, parts: list[str]) -> None:
    for name in ("/".join(parts), "".join(parts)):
        with suppress(InvalidRequest):
            assert inspect_folder(single_model_root, name).name == "a"
