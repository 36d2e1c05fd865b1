"""`temper batch --local` compared with a script that calls vLLM's offline generation.

    python -m benchmarks.local_batch [--rounds 3] [--prompts 2000]

Both are whole commands including engine startup, alternating, with the same engine settings and a
tiny model; both write all answers. In one case all prompts differ from the first token on, in the
other groups of 50 share a long prefix and are shuffled.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from services.contracts.batches.offline_engine import MODULE, OfflineOptions
from services.core.artifacts import ModelSource
from services.core.process.runtimes import REPOSITORY, child_environment
from services.inference.vllm.launch import plan_offline
from tests.support.models.tiny_model import make_tiny_model
from tests.support.runtimes import FOLDER, installed_runtime

MAX_TOKENS = 32
GROUP = 50
PREFIX_WORDS = 150
CASES = [("all different", False, 0.25), ("shared prefixes, shuffled", True, 0.02)]
"""Prompts, and GiB of the engine's cache: the small one holds the prefixes of few groups."""
SECONDS = 1800.0


def prompts_of(count: int, *, shared: bool) -> list[str]:
    """Return texts of about equal length."""
    generator = random.Random(1)

    def words(most: int) -> str:
        return " ".join(str(generator.randrange(1000)) for _ in range(most))

    if not shared:
        return [words(PREFIX_WORDS) for _ in range(count)]
    prefixes = [words(PREFIX_WORDS) for _ in range(max(1, count // GROUP))]
    texts = [f"{prefixes[number % len(prefixes)]} {number}" for number in range(count)]
    generator.shuffle(texts)
    return texts


class Commands:
    """The two commands for the same prompts, in a folder."""

    def __init__(self, folder: Path, model: Path, texts: Sequence[str], cache: float) -> None:
        self._folder = folder
        self._model = model
        self._cache = cache
        (folder / "prompts.json").write_text(json.dumps(texts))
        (folder / "records.json").write_text(json.dumps([{"text": text} for text in texts]))
        (folder / "prompt.yaml").write_text("messages: [{role: user, content: '{{ text }}'}]\n")

    def plain(self) -> float:
        """Return the seconds of the script."""
        plan = plan_offline(
            installed_runtime("vllm"),
            ModelSource(path=self._model),
            OfflineOptions(cpu_kv_cache_gib=self._cache),
            scratch=self._folder,
            devices=[],
        )
        python, *_, module = plan.command[: plan.command.index(MODULE) + 1]
        arguments = plan.command[plan.command.index(module) + 1 :]
        script = str(REPOSITORY / "benchmarks" / "plain_generate.py")
        output = str(self._folder / "plain.json")
        own = [str(self._folder / "prompts.json"), output, str(MAX_TOKENS)]
        return self._timed([python, script, *own, *arguments], plan.environment)

    def batch(self) -> float:
        """Return the seconds of `temper batch`."""
        output = self._folder / f"out-{time.monotonic_ns()}.json"
        command = [sys.executable, "-m", "temper", "batch", "--local", "--model", str(self._model)]
        command += ["--prompts", str(self._folder / "records.json"), "-o", str(output)]
        command += ["--template", str(self._folder / "prompt.yaml")]
        command += ["--max-tokens", str(MAX_TOKENS), "--body", "ignore_eos=true"]
        command += ["--engine", f"cpu_kv_cache_gib={self._cache}"]
        return self._timed(command, child_environment({"TEMPER_RUNTIMES": str(FOLDER)}))

    def _timed(self, command: Sequence[str], environment: dict[str, str]) -> float:
        begun = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        return time.perf_counter() - begun


def compare(rounds: int, count: int) -> None:
    """Print medians, and the speedup of the batch."""
    with tempfile.TemporaryDirectory() as temporary:
        model = make_tiny_model(Path(temporary) / "model")
        print(f"{'prompts':<28}{'script s':>9}{'batch s':>9}{'ratio':>7}")
        for name, shared, cache in CASES:
            folder = Path(temporary) / name.replace(" ", "-")
            folder.mkdir()
            commands = Commands(folder, model, prompts_of(count, shared=shared), cache)
            times = [(commands.plain(), commands.batch()) for _ in range(rounds)]
            script, batch = (statistics.median(side) for side in zip(*times, strict=True))
            print(f"{name:<28}{script:>9.1f}{batch:>9.1f}{script / batch:>7.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=2000)
    given = parser.parse_args()
    compare(given.rounds, given.prompts)
