"""The files of an export: those of the model, and one with its lineage."""

import json
from dataclasses import dataclass
from pathlib import Path

from services.core.artifacts import ADAPTER_CONFIG
from services.trainer.errors import TrainingFailure
from services.trainer.exporting.spec import ExportSpec
from services.trainer.model_files import model_files

LINEAGE = "temper_lineage.json"


@dataclass(frozen=True)
class ExportedFile:
    """A file to copy, and its name at the destination."""

    path: Path
    name: str

    @property
    def size(self) -> int:
        """In bytes."""
        return self.path.stat().st_size


def package(spec: ExportSpec, staging: Path) -> list[ExportedFile]:
    """All files of the export. Those that differ from the model's are written to ``staging``.

    An adapter names its base as the registry does, instead of by a path of this host. Raises
    TrainingFailure for a model without weights.
    """
    staging.mkdir(exist_ok=True)
    files = {path.name: path for path in model_files(spec.folder)}
    if not any(name.endswith(".safetensors") for name in files):
        raise TrainingFailure("the model's folder has no *.safetensors", code="model_load_failed")
    if ADAPTER_CONFIG in files and spec.base is not None:
        settings = json.loads(files[ADAPTER_CONFIG].read_bytes())
        settings["base_model_name_or_path"] = spec.base
        files[ADAPTER_CONFIG] = _write(staging / ADAPTER_CONFIG, settings)
    files[LINEAGE] = _write(staging / LINEAGE, {**spec.about, "exported_by": spec.job_id})
    return [ExportedFile(files[name], name) for name in sorted(files)]


def _write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return path
