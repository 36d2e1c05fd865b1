"""How several processes share a model and its optimiser."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from accelerate import Accelerator
from torch.distributed.fsdp import fully_shard

from services.trainer.online.learner.language_model import LanguageModel


class Replicated:
    """A whole copy in each process (DDP); one process alone has just its copy."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator

    def place(self, model: LanguageModel) -> Any:
        """Bring a model to the devices; what is called is what it returns."""
        return self._accelerator.prepare_model(model)

    def exchange(self, model: Any, *, wanted: bool) -> AbstractContextManager[None]:
        """Within it gradients are computed; only if ``wanted`` they are exchanged."""
        return nullcontext() if wanted else self._accelerator.no_sync(model)


class Sharded:
    """A part of each layer in each process (FSDP2); layers are gathered when they compute."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def place(self, model: LanguageModel) -> Any:
        """Bring the shares of a model to the devices."""
        model.to(self._device)
        for module in [each for each in model.modules() if model.is_layer(each)]:
            fully_shard(module)
        # What is not in a layer too: gathered weights are not those that the optimiser knows, and
        # a checkpoint after a forward pass would miss their moments.
        return fully_shard(model, reshard_after_forward=True)

    def exchange(self, model: Any, *, wanted: bool) -> AbstractContextManager[None]:
        """Within it gradients are computed; only if ``wanted`` they are exchanged."""
        model.set_requires_gradient_sync(wanted)
        return nullcontext()
