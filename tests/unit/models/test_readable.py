"""Models whose files the services' user may not read."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.api.models.folders import inspect_folder
from services.contracts.errors import InvalidRequest
from services.models.loadable import check_readable

OTHER_USER = 65534


@pytest.fixture
def root() -> Iterator[Path]:
    # Not pytest's folder, which other users cannot enter.
    with tempfile.TemporaryDirectory(prefix="temper-models-") as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        yield folder


@contextmanager
def as_other_user() -> Iterator[int]:
    """What a service's own user sees; without root, the modes of a test keep its own user out."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(OTHER_USER)
    try:
        yield os.geteuid()
    finally:
        os.seteuid(own)


def model_in(root: Path) -> Path:
    folder = root / "tiny"
    (folder / "parts").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "parts" / "more.json").write_text("{}")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("model.safetensors", "model.safetensors in its folder"),
        ("parts/more.json", "parts/more.json in its folder"),
        ("parts", "parts in its folder"),
        (".", "its folder"),
        ("..", "its folder"),
    ],
)
def test_registration_names_the_file_and_who_may_not_read_it(
    root: Path, path: str, said: str
) -> None:
    folder = model_in(root)
    with as_other_user():
        assert inspect_folder(root, "tiny").name == "tiny"
    closed = (folder / path).resolve()
    closed.chmod(0)

    with as_other_user() as user, pytest.raises(InvalidRequest) as refused:
        inspect_folder(root, "tiny")
    closed.chmod(0o755)

    assert refused.value.param == "folder"
    owner = closed.stat().st_uid
    message = refused.value.message
    assert message.startswith(f"'tiny': {said} cannot be read by user {user}, ")
    assert f"it belongs to user {owner}, mode 0000" in message
    assert "chmod -R a+rX" in message


def test_a_link_to_nothing_is_named(root: Path) -> None:
    folder = model_in(root)
    (folder / "tokenizer.json").symlink_to("nowhere")
    with pytest.raises(InvalidRequest, match=r"tokenizer\.json in its folder .*No such file"):
        check_readable(folder, "tiny", param="model")


def test_a_missing_folder_is_left_to_others(root: Path) -> None:
    check_readable(root / "missing" / "below", "tiny", param="model")
