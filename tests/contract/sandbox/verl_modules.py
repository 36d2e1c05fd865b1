"""verl's modules that call a sandbox, without the packages that verl requires.

The ``__init__`` modules, which load torch and more, are replaced by empty ones. Its tool runs calls
in Ray actors, which are replaced by threads.
"""

import asyncio
import importlib
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGES = ("verl", "verl.utils", "verl.utils.reward_score", "verl.tools")


@contextmanager
def verl_importable(folder: Path) -> Iterator[Callable[[str], Any]]:
    """A function that imports a module below ``verl`` by name."""
    for name in PACKAGES:
        package = ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")))]
        sys.modules[name] = package
    sys.modules["ray"] = _ray()
    try:
        yield lambda name: importlib.import_module(f"verl.{name}")
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] in ("verl", "ray")]:
            del sys.modules[name]


class _Reply:
    """A reference to a future result of an actor; awaitable."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self.future).__await__()


class _Method:
    """A method of an actor; each call gets a thread."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def remote(self, *arguments: Any, **named: Any) -> _Reply:
        reply = _Reply()

        def answer() -> None:
            try:
                reply.future.set_result(self._call(*arguments, **named))
            except Exception as error:
                reply.future.set_exception(error)

        threading.Thread(target=answer, daemon=True).start()
        return reply


class _Actor:
    def __init__(self, instance: Any) -> None:
        self._instance = instance

    def __getattr__(self, name: str) -> _Method:
        return _Method(getattr(self._instance, name))


class _ActorClass:
    def __init__(self, made_of: type) -> None:
        self._class = made_of

    def options(self, **_options: Any) -> "_ActorClass":
        return self

    def remote(self, *arguments: Any, **named: Any) -> _Actor:
        return _Actor(self._class(*arguments, **named))


def _ray() -> ModuleType:
    def remote(made_of: type | None = None, **_options: Any) -> Any:
        return _ActorClass if made_of is None else _ActorClass(made_of)

    ray: Any = ModuleType("ray")
    ray.remote = remote
    ray.method = lambda **_options: lambda function: function
    ray.get = lambda reply: reply.future.result()
    return ray  # type: ignore[no-any-return]  # verl has no types
