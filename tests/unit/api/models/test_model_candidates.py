"""Folders below the model root, with what is wrong with each."""

from pathlib import Path

from services.api.models.candidates import MAX_FOLDERS, list_folders
from services.contracts.models.registered import ModelFolder
from services.core.db.engine import Database
from services.core.db.tables import ModelRow


def folders(database: Database, root: Path) -> tuple[dict[str, ModelFolder], bool]:
    with database.read() as session:
        found, has_more = list_folders(session, root)
    return {each.id: each for each in found}, has_more


def put(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name.replace("_json", ".json").replace("_st", ".safetensors")).write_text(content)


def test_folders_are_listed_with_their_sizes_and_problems(
    database: Database, tmp_path: Path
) -> None:
    root = tmp_path / "models"
    put(root / "whole", config_json="{}", model_st="0123")
    put(root / "owner" / "adapter", adapter_config_json="{}", adapter_st="")
    put(root / "broken", config_json="{", model_st="")
    put(root / "weightless", config_json="{}")
    put(root / "empty")
    put(root / ".cache" / "hidden", config_json="{}", model_st="")
    (root / "link").symlink_to(tmp_path)
    with database.write() as session:
        row = ModelRow(id="mine", kind="full", folder="whole", created_at=0.0)
        session.add(row)

    found, has_more = folders(database, root)

    assert list(found) == ["broken", "empty", "owner/adapter", "weightless", "whole"]
    assert not has_more
    whole = found["whole"]
    assert (whole.kind, whole.bytes, whole.problem, whole.models) == ("full", 6, None, ["mine"])
    assert (found["owner/adapter"].kind, found["owner/adapter"].models) == ("adapter", [])
    problems = {name: found[name].problem or "" for name in ("broken", "empty", "weightless")}
    assert "config.json of 'broken'" in problems["broken"]
    assert "has no config.json" in problems["empty"]
    assert "has no *.safetensors" in problems["weightless"]


def test_a_missing_root_has_no_folders_and_a_full_one_is_cut(
    database: Database, tmp_path: Path
) -> None:
    assert folders(database, tmp_path / "absent") == ({}, False)
    for number in range(MAX_FOLDERS + 1):
        (tmp_path / "many" / str(number)).mkdir(parents=True)

    found, has_more = folders(database, tmp_path / "many")

    assert (len(found), has_more) == (MAX_FOLDERS, True)
