"""PiSSA (Meng et al. 2024, arXiv:2404.02948), whose adapters end as plain ones of the same base.

PEFT starts an adapter with the principal part of each weight, which it subtracts from the base in
memory: ``W = W_res + s B0 A0``. What it saves, ``B A``, fits ``W_res`` and no model on disk. Here
the first matrices are kept, and an adapter of twice the rank makes the same difference to ``W``:

    s (B A - B0 A0) = s [B | -B0] [A ; A0]

Holds for LLaMA-Factory 0.9.5.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file, save_file

from services.contracts.llamafactory.names import Stage
from services.core.artifacts import ADAPTER_CONFIG
from services.trainer.model_files import MODEL_FOLDER, copy_model
from services.trainer.offline.job_dir import leads
from services.trainer.offline.library.internals import llamafactory_module

ADAPTER = "default"
"""PEFT's name of the adapter that is trained."""
WEIGHTS = "adapter_model.safetensors"


@dataclass(frozen=True)
class Pissa:
    """The initial matrices of a training: drawn by ``seed``, stored in ``folder`` for all
    attempts."""

    folder: Path
    seed: int

    @property
    def initial(self) -> Path:
        """The file of the initial matrices."""
        return self.folder / "pissa" / "initial.safetensors"

    def install(self, stage: Stage) -> None:
        """Store the initial matrices when the stage loads its model."""
        workflow: Any = llamafactory_module(f"train.{stage.value}.workflow")
        workflow.load_model = self._keeping(workflow.load_model)

    def _keeping(self, load_model: Callable[..., Any]) -> Callable[..., Any]:
        def load(*args: Any, **kwargs: Any) -> Any:
            with _seeded_decompositions(self.seed):
                model = load_model(*args, **kwargs)
            adapted = getattr(model, "pretrained_model", model)  # beside a value head
            if isinstance(adapted, PeftModel):
                self._keep(adapted)
            return model

        return load

    def _keep(self, model: Any) -> None:
        """Store the initial matrices; later attempts start with the same ones, drawn by the same
        seed. When LLaMA-Factory resumes, the model already has the checkpoint's adapter.
        """
        if self.initial.exists() or not leads():
            return
        self.initial.parent.mkdir(parents=True, exist_ok=True)
        partial = self.initial.with_suffix(".partial")
        first = get_peft_model_state_dict(model, adapter_name=ADAPTER)
        save_file({name: first[name].contiguous() for name in first if "lora_" in name}, partial)
        partial.replace(self.initial)

    def publish(self, checkpoint: Path) -> Path:
        """The folder within a checkpoint with its model in the form that others load.

        Two levels deep: transformers, resuming, loads the adapters in a checkpoint's own folders
        instead of the checkpoint's.
        """
        target = checkpoint / "published" / MODEL_FOLDER
        shutil.rmtree(target, ignore_errors=True)
        copy_model(checkpoint, target)
        self.convert(target)
        return target

    def convert(self, folder: Path) -> None:
        """Convert a saved adapter to one of the unchanged base."""
        config = json.loads((folder / ADAPTER_CONFIG).read_bytes())
        if not str(config["init_lora_weights"]).startswith("pissa"):
            return  # already converted
        first = load_file(self.initial)
        weights = {
            name: _beside(name, weight, first)
            for name, weight in load_file(folder / WEIGHTS).items()
        }
        save_file(weights, folder / WEIGHTS, {"format": "pt"})
        # The scale stays: alpha / r, or alpha / sqrt(r) of rsLoRA.
        config["lora_alpha"] *= sqrt(2) if config.get("use_rslora") else 2
        config |= {"r": 2 * config["r"], "init_lora_weights": True}
        (folder / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _seeded_decompositions(seed: int) -> Iterator[None]:
    """Decompose each weight from the same random state, however its model is loaded. Otherwise the
    randomized decomposition of a resumed training would subtract different parts.
    """
    decompose = LoraLayer.pissa_init

    def seeded(layer: Any, *args: Any) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            decompose(layer, *args)

    LoraLayer.pissa_init = seeded
    try:
        yield
    finally:
        LoraLayer.pissa_init = decompose


def _beside(name: str, weight: torch.Tensor, first: dict[str, torch.Tensor]) -> torch.Tensor:
    """A trained matrix stacked with its initial value; other weights unchanged."""
    if "lora_A" in name:
        return torch.cat([weight, first[name].to(weight)], dim=0).contiguous()
    if "lora_B" in name:
        return torch.cat([weight, -first[name].to(weight)], dim=1).contiguous()
    return weight
