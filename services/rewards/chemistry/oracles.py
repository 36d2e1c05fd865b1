"""Molecular properties that need a trained model, computed by the operator's functions."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from services.core.process.worker_pool import FunctionFailed, FunctionPool
from services.rewards.functions import read_score
from services.rewards.interface import RewardFailed

PROCESSES = 1
"""Per oracle, since each may load a model."""
SECONDS = 60.0


class Oracles:
    """Functions of a molecule, ``f(smiles=...)``, by property: dotted paths, whose modules are also
    searched for in ``folder``.

    Use it as an async context manager.
    """

    def __init__(self, functions: Mapping[str, str], folder: Path | None) -> None:
        self._functions = functions
        self._folder = folder
        self._pools: dict[str, FunctionPool] = {}

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for name, path in self._functions.items():
                pool = FunctionPool(path, PROCESSES, self._folder)
                self._pools[name] = await stack.enter_async_context(pool)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def check(self, name: str) -> None:
        """Raise `RewardFailed` for a property without an oracle."""
        if name not in self._functions:
            raise RewardFailed(f"no oracle: {name} needs a model, and none is given")

    async def improvement(self, name: str, source: str, answer: str) -> float:
        """The difference of a property between two molecules; raises `RewardFailed`."""
        return await self._value(name, answer) - await self._value(name, source)

    async def _value(self, name: str, smiles: str) -> float:
        try:
            value = await self._pools[name].call({"smiles": smiles}, SECONDS)
        except FunctionFailed as error:
            raise RewardFailed(error.message) from error
        return read_score(value, self._functions[name])
