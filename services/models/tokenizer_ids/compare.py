"""Compares the ids that runtimes give to probe texts, and refuses a model whose ids differ."""

import contextlib
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import BaseModel, ValidationError

from services.contracts.errors import InvalidRequest
from services.core.process.runtimes import (
    REPOSITORY,
    Runtime,
    RuntimeMissing,
    child_environment,
    find_runtime,
    runtimes_of,
)
from services.core.process.tree import run_tree
from services.models.tokenizer_ids.files import TOKENIZER, read_special_tokens
from services.models.tokenizer_ids.prepared import is_settled, prepare_tokenizer
from services.models.tokenizer_ids.probes import probes_for

CHILD = "services.models.tokenizer_ids.child"
CODE = "tokenizer_differs"
FOLDER = "tokenizer_ids"
GENERATING = ("training", "vllm")
"""The runtimes that read and write a model's text."""
EMBEDDING = ("vllm", "encoder")
"""Those that compute its vectors."""
BUILT_FROM = ("*.model", "*.tiktoken", "vocab.*")
"""Files of which a tokenizer is built where there is no tokenizer.json."""
MAX_CACHED = 1000
LIMIT_SECONDS = 180.0
SHOWN_IDS = 8


class TokenizerDiffers(InvalidRequest):
    """A model whose text has other ids in one runtime than in another."""

    code = CODE

    def __init__(self, message: str) -> None:
        super().__init__(message, param="model")


class RuntimeIds(BaseModel):
    """Probe texts in one runtime: ids by the class that its transformers builds and by
    tokenizer.json, or why the tokenizer cannot be loaded."""

    class_name: str = ""
    built: list[list[int]] = []
    plain: list[list[int]] | None = None
    error: str | None = None


def check_equal_ids(
    model: str, folder: Path, runtimes: Sequence[Runtime], home: Path, *, embeds: bool = False
) -> None:
    """Raise `TokenizerDiffers` unless all runtimes give a model's text the same ids.

    ``folder`` has the model's tokenizer, which a model that ``embeds`` is loaded with as it is.
    Nothing is started where tokenizer.json alone decides the ids, and results are cached below
    ``home`` by the content of the files. A tokenizer that needs code of its own is left to the
    runtime that may run it.
    """
    with TemporaryDirectory(prefix="temper-tokenizer-") as scratch:
        place = folder
        if (folder / TOKENIZER).is_file() and not embeds:
            place = prepare_tokenizer(folder, Path(scratch) / "prepared")
            if is_settled(place):
                return
        probes = probes_of(place)
        found = {each.name: _cached_ids(place, probes, each, home) for each in runtimes}
        if embeds:  # the libraries of both build it, and never read the file by itself
            found = {name: ids.model_copy(update={"plain": None}) for name, ids in found.items()}
    compare(model, probes, found)


def check_prepared(model: str, prepared: Path, runtime: str, python: Path) -> None:
    """The same for a prepared folder and the interpreter of the runtime that will load it."""
    if is_settled(prepared):
        return
    probes = probes_of(prepared)
    try:
        (found,) = encode_in(python, [(prepared, probes)])
    except (OSError, ValueError, subprocess.SubprocessError):
        return  # a runtime that fails here says why when it loads the model
    compare(model, probes, {runtime: found})


def check_built(model: str, folder: Path, python: Path) -> None:
    """The same for a folder without tokenizer.json: each runtime builds a tokenizer from its other
    files. Compared are the runtimes that generate text, of those installed beside that of the
    interpreter ``python``.
    """
    if not any(path.is_file() for pattern in BUILT_FROM for path in folder.glob(pattern)):
        return
    probes = probes_of(folder)
    found: dict[str, RuntimeIds] = {}
    for name in GENERATING:
        with contextlib.suppress(RuntimeMissing, OSError, ValueError, subprocess.SubprocessError):
            runtime = find_runtime(runtimes_of(python), name)
            (found[name],) = encode_in(runtime.python, [(folder, probes)])
    compare(model, probes, found)


def probes_of(folder: Path) -> list[str]:
    """The probe texts for the tokenizer in a folder."""
    return probes_for(read_special_tokens(folder).values())


def compare(model: str, probes: Sequence[str], found: Mapping[str, RuntimeIds]) -> None:
    """Raise `TokenizerDiffers` for the first text with different ids; the message names the
    class, the text and both ids."""
    readings: list[tuple[str, list[list[int]]]] = []
    for runtime, answer in found.items():
        if answer.error is not None:
            continue  # the job that loads it says so
        if answer.plain is not None:
            readings.append((f"{TOKENIZER} in the runtime {runtime}", answer.plain))
        readings.append((f"{answer.class_name} in the runtime {runtime}", answer.built))
    for (first, ids), (second, others) in pairwise(readings):
        for text, given, other in zip(probes, ids, others, strict=True):
            if given != other:
                raise TokenizerDiffers(
                    f"the tokenizer of {model!r} is not the same everywhere: {text!r} is "
                    f"{_shown(given)} by {first} and {_shown(other)} by {second}; save it as "
                    f"{TOKENIZER} with all its special tokens among its added tokens"
                )


def encode_in(python: Path, asked: Iterable[tuple[Path, Sequence[str]]]) -> list[RuntimeIds]:
    """The ids of texts by the tokenizer in each folder, by a child of the interpreter ``python``.

    Raises OSError, ValueError or subprocess.SubprocessError where the child fails.
    """
    given = json.dumps([{"folder": str(folder), "texts": texts} for folder, texts in asked])
    answer = run_tree(
        [str(python), "-m", CHILD],
        seconds=LIMIT_SECONDS,
        cwd=REPOSITORY,
        environment=child_environment({"CUDA_VISIBLE_DEVICES": "", "TRANSFORMERS_OFFLINE": "1"}),
        given=given.encode(),
    )
    answer.check_returncode()
    return [RuntimeIds.model_validate(each) for each in json.loads(answer.stdout)]


def _cached_ids(folder: Path, probes: Sequence[str], runtime: Runtime, home: Path) -> RuntimeIds:
    kept = home / FOLDER / f"{_key(folder, runtime)}.json"
    with contextlib.suppress(OSError, ValidationError):
        return RuntimeIds.model_validate_json(kept.read_bytes())
    try:
        (found,) = encode_in(runtime.python, [(folder, probes)])
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return RuntimeIds(error=f"the runtime cannot be asked: {error}"[:500])
    _keep(kept, found)
    return found


def _key(folder: Path, runtime: Runtime) -> str:
    digest = sha256(f"{runtime.name}/{runtime.version}".encode())
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix in {".json", ".model", ".txt", ".tiktoken"}:
            digest.update(f"/{path.name}/{path.stat().st_size}/".encode())
            with open(path, "rb") as content:
                while block := content.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()


def _keep(kept: Path, found: RuntimeIds) -> None:
    """Cache atomically and evict the oldest beyond the limit; on a write error nothing is kept."""
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=kept.parent) as folder:
            partial = Path(folder) / kept.name
            partial.write_text(found.model_dump_json())
            partial.replace(kept)
        oldest = sorted(kept.parent.glob("*.json"), key=lambda each: each.stat().st_mtime_ns)
        for each in oldest[:-MAX_CACHED]:
            each.unlink(missing_ok=True)


def _shown(ids: Sequence[int]) -> str:
    more = f" and {len(ids) - SHOWN_IDS} more" if len(ids) > SHOWN_IDS else ""
    return f"{list(ids[:SHOWN_IDS])}{more}"
