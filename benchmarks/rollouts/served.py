"""The cost of the loop next to a vLLM server on the same machine."""

import json
import subprocess
from pathlib import Path

from benchmarks.rollouts import cost
from benchmarks.rollouts.engines import Served
from benchmarks.rollouts.runner import Stage
from services.contracts.engine import VllmOptions
from services.core.artifacts import ModelSource
from services.core.process.runtimes import REPOSITORY, find_runtime
from services.inference.token_engine import VllmTokenEngine
from services.inference.vllm.launch import Routes
from services.inference.vllm.server import VllmServer
from services.rollouts.chat import open_chat_tokens

RUNTIMES = REPOSITORY / ".temper" / "runtimes"
NAME = "tiny"
ROUNDS = 2
OPTIONS = VllmOptions(max_num_seqs=256, cpu_kv_cache_gib=2.0)


async def measure(folder: Path, in_flight: int) -> None:
    """Serve a tiny model with random weights, and compare."""
    model = _model(folder)
    chat = open_chat_tokens(model)
    stage = Stage(chat, model, in_flight, folder / "trajectories.jsonl")
    python = find_runtime(RUNTIMES, "vllm").python
    async with (
        VllmServer(
            python,
            ModelSource(path=_without_end(model, folder / "endless")),
            NAME,
            [],
            folder,
            OPTIONS,
            routes=Routes(tokens=True),
        ) as server,
        VllmTokenEngine(server.base_url, server.api_key, NAME) as engine,
    ):
        pace = Served(engine)
        await cost.warm_up(stage, pace)
        await cost.measure(stage, in_flight, pace, "vLLM with a tiny model", ROUNDS)


def _model(folder: Path) -> Path:
    folder.mkdir()
    model = folder / "model"
    python = find_runtime(RUNTIMES, "training").python
    script = REPOSITORY / "examples/demo_1_addition/model.py"
    subprocess.run([str(python), str(script), str(model)], check=True, stdout=subprocess.DEVNULL)
    return model


def _without_end(model: Path, endless: Path) -> Path:
    """Return the same model without an end-of-turn token: it samples the requested length."""
    endless.mkdir()
    for file in model.iterdir():
        if file.suffix == ".json" and file.name != "tokenizer.json":
            settings = json.loads(file.read_text())
            kept = {key: settings[key] for key in settings if not key.startswith("eos_token")}
            (endless / file.name).write_text(json.dumps(kept))
        else:
            (endless / file.name).symlink_to(file)
    return endless
