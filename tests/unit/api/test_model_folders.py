"""Only folders that the operator put under the model root can become models."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.api.models.folders import inspect_folder
from services.contracts.errors import InvalidRequest
from services.contracts.models import ModelKind


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
def test_any_other_name_is_refused(root: Path, name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        inspect_folder(root, name)

    assert caught.value.param == "folder"


def test_an_absolute_name_is_refused_even_under_the_root(root: Path) -> None:
    with pytest.raises(InvalidRequest, match="relative"):
        inspect_folder(root, str(root / "tiny"))


def test_a_link_must_stay_under_the_root(root: Path, tmp_path: Path) -> None:
    (root / "inner").symlink_to("tiny")
    (root / "outer").symlink_to(tmp_path / "outside")
    (root / "up").symlink_to("..")
    (root / "circle").symlink_to("circle")

    assert inspect_folder(root, "inner").name == "tiny"
    for name in ("outer", "up", "up/outside", "circle"):
        with pytest.raises(InvalidRequest):
            inspect_folder(root, name)


def test_the_root_itself_may_be_reached_by_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)

    assert inspect_folder(tmp_path / "link", "tiny").name == "tiny"


def test_pickled_weights_are_no_model(root: Path) -> None:
    (root / "tiny" / "model.safetensors").rename(root / "tiny" / "pytorch_model.bin")

    with pytest.raises(InvalidRequest, match=r"no \*\.safetensors"):
        inspect_folder(root, "tiny")


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "\xff", "[" * 100_000])
def test_a_configuration_must_be_an_object(root: Path, content: str) -> None:
    (root / "tiny" / "config.json").write_text(content, encoding="latin-1")

    with pytest.raises(InvalidRequest):
        inspect_folder(root, "tiny")


def test_a_configuration_without_measure_is_not_read(root: Path) -> None:
    with open(root / "tiny" / "config.json", "wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(InvalidRequest, match="too large"):
        inspect_folder(root, "tiny")


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with one model, beside another that must never be found."""
    folder = tmp_path_factory.mktemp("lonely")
    make_model(folder / "root" / "a")
    make_model(folder / "b")
    return folder / "root"


@settings(deadline=None)
@given(parts=st.lists(st.sampled_from(["a", "b", "..", ".", "", "/", "\\", "\0", "~", "root"])))
def test_no_name_leads_elsewhere(lonely: Path, parts: list[str]) -> None:
    for name in ("/".join(parts), "".join(parts)):
        with suppress(InvalidRequest):
            assert inspect_folder(lonely, name).name == "a"
