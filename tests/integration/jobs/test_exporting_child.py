"""The exporting child: to a folder, and to a stand-in of a hub on the loopback interface."""

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from services.core.process.reporter import REPORTS, RESULT
from services.core.process.runtimes import child_environment
from services.trainer.exporting.spec import SPEC, Credentials, ExportSpec
from tests.support.models.hub import WritableHub, running
from tests.support.runtimes import installed_runtime

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(300)]

TOKEN = "hf_writer"
WEIGHTS = os.urandom(3 << 20)


def adapter(folder: Path) -> Path:
    folder.mkdir()
    settings = {"peft_type": "LORA", "base_model_name_or_path": "/srv/models/base"}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    (folder / "adapter_model.safetensors").write_bytes(WEIGHTS)
    (folder / "tokenizer.json").write_text("{}")
    (folder / "optimizer.pt").write_bytes(b"not of the model")
    return folder


def export(
    job_dir: Path,
    destination: str,
    token: str | None = None,
    job_id: str = "export-1",
    **environment: str,
) -> dict[str, Any]:
    """Run the child; return its result."""
    job_dir.mkdir(exist_ok=True)
    folder = job_dir.parent / "adapter"
    spec = ExportSpec(
        job_id=job_id,
        folder=folder if folder.exists() else adapter(folder),
        destination=destination,
        base="base",
        about={"id": "ft:base:temper:x:1", "lineage": {"parent": "base", "seed": 3}},
    )
    (job_dir / SPEC).write_text(spec.model_dump_json())
    done = subprocess.run(
        [installed_runtime("training").python, "-m", "services.trainer.exporting", str(job_dir)],
        env=child_environment({**Credentials(hub_token=token).variables(), **environment}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    (job_dir / "log.txt").write_text(done.stdout + done.stderr)
    result: dict[str, Any] = json.loads((job_dir / RESULT).read_bytes())
    return result


def test_a_folder_gets_the_model_its_lineage_and_digests(tmp_path: Path) -> None:
    target = tmp_path / "exports" / "x"

    result = export(tmp_path / "job", f"file://{target}")

    assert (result["status"], result["files"]) == ("succeeded", 4), result
    assert {path.name for path in target.iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "temper_export.json",
        "temper_lineage.json",
        "tokenizer.json",
    }
    assert (target / "adapter_model.safetensors").read_bytes() == WEIGHTS
    settings = json.loads((target / "adapter_config.json").read_bytes())
    assert settings["base_model_name_or_path"] == "base"
    lineage = json.loads((target / "temper_lineage.json").read_bytes())
    assert lineage["lineage"] == {"parent": "base", "seed": 3}
    manifest = json.loads((target / "temper_export.json").read_bytes())
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    assert (manifest["complete"], manifest["sha256"]["adapter_model.safetensors"]) == (True, digest)
    assert '"step": 4, "total_steps": 4' in (tmp_path / "job" / REPORTS).read_text()

    other = export(tmp_path / "other", f"file://{target}", job_id="export-2")

    assert other["error"]["code"] == "destination_not_empty"


def test_an_interrupted_export_sends_only_what_is_missing(tmp_path: Path) -> None:
    job_dir, target = tmp_path / "job", tmp_path / "x"
    export(job_dir, f"file://{target}")
    sent_before = (target / "adapter_model.safetensors").stat()
    (target / "tokenizer.json").rename(target / "tokenizer.json.partial")
    (job_dir / RESULT).unlink()

    again = export(job_dir, f"file://{target}")

    assert again["status"] == "succeeded"
    assert (target / "tokenizer.json").read_text() == "{}"
    assert (target / "adapter_model.safetensors").stat().st_ino == sent_before.st_ino


def test_a_folder_that_cannot_be_written_and_an_unknown_store_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    blocked = export(tmp_path / "job", f"file://{tmp_path}/file/x")
    unknown = export(tmp_path / "job", "gopher://host/x")

    assert blocked["error"]["code"] == "destination_refused"
    assert unknown["error"]["code"] == "destination_unsupported"
    assert unknown["error"]["param"] == "destination"


def test_a_hub_gets_one_commit_and_the_token_stays_out_of_the_job(tmp_path: Path) -> None:
    with running(WritableHub("team", TOKEN)) as hub:
        environment = {
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / "cache"),
            "HF_HUB_DISABLE_XET": "1",
        }

        refused = export(tmp_path / "job", "hf://team/x", "hf_reader", **environment)
        anonymous = export(tmp_path / "job", "hf://team/x", None, **environment)
        assert (hub.stored, hub.commits) == ({}, [])
        result = export(tmp_path / "job", "hf://team/x", TOKEN, **environment)

    assert refused["error"]["code"] == anonymous["error"]["code"] == "destination_refused"
    assert "TEMPER_EXPORT_HUB_TOKEN" in refused["error"]["message"]
    assert (result["status"], result["commit"]) == ("succeeded", f"{1:040x}"), result
    (commit,) = hub.commits
    assert set(commit) == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "temper_lineage.json",
        "tokenizer.json",
    }
    assert commit["adapter_model.safetensors"] == WEIGHTS
    files = [path for path in (tmp_path / "job").rglob("*") if path.is_file()]
    assert not any(TOKEN.encode() in path.read_bytes() for path in files)
