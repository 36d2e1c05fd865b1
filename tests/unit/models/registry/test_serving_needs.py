"""What serving a model takes that somebody else trained."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import ModelRow
from services.models.registry import resolve_model


@pytest.mark.parametrize(
    ("config", "needs_merge"),
    [({"r": 8}, False), ({"r": 8, "use_dora": True}, True), ({"init_lora_weights": "pissa"}, True)],
)
def test_a_registered_adapter_is_merged_if_its_settings_need_that(
    database: Database, tmp_path: Path, config: dict[str, Any], needs_merge: bool
) -> None:
    (tmp_path / "models" / "adapter").mkdir(parents=True)
    (tmp_path / "models" / "adapter" / "adapter_config.json").write_text(json.dumps(config))
    with database.write() as session:
        session.add(ModelRow(id="base", kind="full", hub_id="owner/base", created_at=0.0))
        session.add(
            ModelRow(id="own", kind="adapter", base="base", folder="adapter", created_at=0.0)
        )

    with database.read() as session:
        model = resolve_model(session, "own", tmp_path / "models", Artifacts(tmp_path))

    assert model.needs_merge is needs_merge
