"""Adapters while requests still need them."""

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path

from services.trainer.rl.engine.policy_server import PolicyServer
from services.trainer.rl.engine.server_plan import Weights


class AdapterFolders:
    """Keeps a copy of each adapter that is in use, under a name and a path of its own.

    vLLM keys its caches by both, and reads an adapter again when it has pushed it out of memory
    while a long turn still samples from it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: dict[str, Path] = {}
        self._numbers = itertools.count()

    def take(self, version: int, folder: Path) -> Weights:
        """Copy an adapter; the copy is what is to be served."""
        name = f"policy-{version}-{next(self._numbers)}"
        copy = self._folder / name
        if copy.exists():  # of a process that was killed
            shutil.rmtree(copy)
        shutil.copytree(folder, copy)
        self._kept[name] = copy
        return Weights(version, copy, name)

    async def drop_unused(self, servers: Sequence[PolicyServer]) -> None:
        """Forget the adapters that no server samples from any more."""
        for name, copy in list(self._kept.items()):
            if any(server.samples_from(name) for server in servers):
                continue
            for server in servers:
                await server.unload(name)
            shutil.rmtree(copy)
            del self._kept[name]
