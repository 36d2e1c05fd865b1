"""Code in a hub repository, known only once its configuration is downloaded."""

import json
from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest
from services.core.artifacts import ModelSource
from services.models import hub_download
from services.trainer import hub


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The patterns of every download from a repository with code."""
    folder = tmp_path / "snapshots" / "commit"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"auto_map": {"AutoModel": "m.M"}}))
    (folder / "model.safetensors").write_text("")
    patterns: list[list[str]] = []

    def snapshot_download(name: str, *, dry_run: bool = False, **options: list[str]) -> object:
        if dry_run:
            return []
        patterns.append(options["allow_patterns"])
        return str(folder)

    monkeypatch.setattr(hub_download, "snapshot_download", snapshot_download)
    return patterns


def test_an_untrusted_repository_is_refused_before_code_or_weights_are_downloaded(
    tmp_path: Path, asked: list[list[str]]
) -> None:
    model = ModelSource(hub_id="lab/own")

    with pytest.raises(InvalidRequest, match="'hub:lab/own' is not in TEMPER_TRUSTED") as caught:
        hub.model_folder(model, tmp_path, lambda phase: None, "teacher.model")

    assert caught.value.param == "teacher.model"
    assert len(asked) == 1
    assert "*.py" not in asked[0]


def test_the_code_of_a_trusted_repository_is_downloaded_with_its_settings(
    tmp_path: Path, asked: list[list[str]]
) -> None:
    folder = hub.model_folder(
        ModelSource(hub_id="lab/own", trusted=True), tmp_path, lambda phase: None
    )

    assert folder.name == "commit"
    assert "*.py" in asked[0]
