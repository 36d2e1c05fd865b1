"""The finished model: a folder with only the files that serving reads."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from services.core.artifacts import ADAPTER_CONFIG, ModelSource, adapter_needs_merge
from services.models.loadable import code_files

MODEL_FOLDER = "model"

# What loaders read. Pickles (training_args.bin), logs and model cards stay outside.
_MODEL_FILES = (
    "*.safetensors",
    "*.safetensors.index.json",
    ADAPTER_CONFIG,
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "*.model",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)


@dataclass(frozen=True)
class FinishedModel:
    """Where the model is. With ``needs_merge`` serving must merge the adapter first."""

    directory: Path
    needs_merge: bool = False


def collect_model(output_dir: Path, stop_token_ids: list[int]) -> FinishedModel:
    """Move what the trainer saved into a folder of its own; safe to repeat after a kill.

    A full model's generation then stops at ``stop_token_ids``. Raises FileNotFoundError
    without weights in safetensors.
    """
    directory = output_dir / MODEL_FOLDER
    directory.mkdir(exist_ok=True)
    for path in model_files(output_dir):
        shutil.move(path, directory / path.name)
    if not any(directory.glob("*.safetensors")):
        raise FileNotFoundError("the trainer saved no weights in safetensors")
    adapter = directory / ADAPTER_CONFIG
    if adapter.exists():
        return FinishedModel(directory, adapter_needs_merge(directory))
    _stop_at(directory / "generation_config.json", stop_token_ids)
    return FinishedModel(directory)


def model_files(folder: Path) -> list[Path]:
    """The files in a folder that loaders read; modules of the model's own code precede the
    configuration that names them, so that a move can be repeated after a kill."""
    found = {path for pattern in _MODEL_FILES for path in folder.glob(pattern)}
    return [*code_files(folder), *sorted(found)]


def copy_model(checkpoint: Path, target: Path) -> None:
    """Copy the model of a checkpoint, without the trainer's state."""
    target.mkdir(parents=True)
    for path in model_files(checkpoint):
        shutil.copy(path, target / path.name)


def name_base(directory: Path, base: ModelSource) -> None:
    """Make an adapter name its base's hub repository instead of this host's cache folder."""
    path = directory / ADAPTER_CONFIG
    if base.hub_id is None or not path.exists():
        return
    settings = json.loads(path.read_bytes())
    settings |= {"base_model_name_or_path": base.hub_id, "revision": base.revision}
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def remove_unfinished(output_dir: Path) -> None:
    """Delete what an interrupted final save left, so that it can be written again."""
    for path in model_files(output_dir):
        path.unlink()
    shutil.rmtree(output_dir / MODEL_FOLDER, ignore_errors=True)


def _stop_at(path: Path, token_ids: list[int]) -> None:
    settings = json.loads(path.read_bytes()) if path.exists() else {}
    before = settings.get("eos_token_id")
    known = before if isinstance(before, list) else [] if before is None else [before]
    settings["eos_token_id"] = list(dict.fromkeys([*known, *token_ids]))
    path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
