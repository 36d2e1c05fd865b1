"""End-to-end time of commands that send 5,000 prompts to an endpoint: `temper batch` and
alternatives.

    python -m benchmarks.batch_commands [--rounds 3] [--items 5000] [--lm-eval PYTHON]
    python -m benchmarks.batch_commands --memory 1000000

The alternatives are a script with `requests`, in two processes of 32 threads, and, with --lm-eval,
lm-eval in that Python's environment (`pip install "lm-eval[api]"`). All take turns on the same mock
server, with 64 requests in flight; times are wall-clock times of whole processes. --memory runs one
batch of that many records and prints its peak memory in each tenth of the run.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import requests

from benchmarks.evaluation import mock_server
from services.core.process.runtimes import REPOSITORY

AT_ONCE = 64
PROCESSES = 2
LATENCIES = (0.0, 0.1)
SECONDS = 3600.0
LOOK_SECONDS = 0.2
TASK = """
task: sums
dataset_path: json
dataset_kwargs:
  data_files: {{test: {path}}}
test_split: test
output_type: generate_until
doc_to_text: "What is {{{{left}}}}+{{{{right}}}}?"
doc_to_target: "{{{{sum}}}}"
generation_kwargs: {{max_gen_toks: 64}}
metric_list: [{{metric: exact_match}}]
"""


def write_input(folder: Path, items: int) -> None:
    """Write the records, a template, and lm-eval's task."""
    rows = ({"left": number, "right": 2, "sum": str(number + 2)} for number in range(items))
    (folder / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "prompt.yaml").write_text('system_prompt: "What is {{ left }}+{{ right }}?"')
    tasks = folder / "tasks"
    tasks.mkdir()
    (tasks / "sums.yaml").write_text(TASK.format(path=folder / "records.jsonl"))


def batch_command(folder: Path, port: int) -> list[str]:
    """Return the `temper batch` command."""
    output = folder / f"out-{time.monotonic_ns()}.json"
    command = [sys.executable, "-m", "temper", "batch", "--model", "mock"]
    command += ["--base-url", f"http://127.0.0.1:{port}/v1", "--concurrency", str(AT_ONCE)]
    command += ["--prompts", str(folder / "records.jsonl")]
    return [*command, "--template", str(folder / "prompt.yaml"), "-o", str(output)]


def script_command(folder: Path, port: int) -> list[str]:
    """Return the command of the threaded script."""
    return [sys.executable, "-m", "benchmarks.batch_commands", "--script", str(folder), str(port)]


def lm_eval_command(python: str, folder: Path, port: int) -> list[str]:
    """Return lm-eval's command for the same items."""
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    model = f"base_url={url},model=mock,num_concurrent={AT_ONCE},tokenized_requests=False"
    command = [python, "-m", "lm_eval", "--model", "local-chat-completions"]
    command += ["--model_args", model, "--tasks", "sums", "--include_path", str(folder / "tasks")]
    return [*command, "--apply_chat_template"]


def seconds_of(command: Sequence[str], cwd: Path = REPOSITORY) -> float:
    """Return the wall-clock seconds of a command."""
    environment = {**os.environ, "OPENAI_API_KEY": "none", "TOKENIZERS_PARALLELISM": "false"}
    begun = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    elapsed = time.perf_counter() - begun
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return elapsed


def compare(rounds: int, items: int, lm_eval: str | None) -> None:
    """Print medians of all commands, and each one's time relative to `temper batch`."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_input(folder, items)
        print(f"{'latency':>8}  {'command':<24}{'seconds':>8}{'items/s':>9}{'times ours':>12}")
        for latency in LATENCIES:
            with mock_server(latency) as port:
                commands = {
                    "temper batch": batch_command,
                    "threads and processes": script_command,
                }
                times: dict[str, list[float]] = {}
                for _ in range(rounds):
                    for name, command in commands.items():
                        times.setdefault(name, []).append(seconds_of(command(folder, port)))
                    if lm_eval is not None:
                        command_line = lm_eval_command(lm_eval, folder, port)
                        times.setdefault("lm-eval", []).append(seconds_of(command_line))
            ours = statistics.median(times["temper batch"])
            for name, measured in times.items():
                median = statistics.median(measured)
                print(
                    f"{latency * 1000:>5.0f} ms  {name:<24}{median:>8.2f}{items / median:>9.0f}"
                    f"{median / ours:>12.2f}",
                    flush=True,
                )


def watch_memory(items: int) -> None:
    """Print the peak memory of a batch in each tenth of its run."""
    with tempfile.TemporaryDirectory() as name, mock_server(0.0) as port:
        folder = Path(name)
        write_input(folder, items)
        command = batch_command(folder, port)
        seen = []
        with subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL) as batch:
            process = psutil.Process(batch.pid)
            while batch.poll() is None:
                seen.append(_memory(process))
                time.sleep(LOOK_SECONDS)
        tenth = max(1, len(seen) // 10)
        parts = [max(seen[start : start + tenth]) for start in range(0, len(seen), tenth)]
        print(" ".join(f"{part / 1e6:.0f}" for part in parts), "MB")


def _memory(process: psutil.Process) -> int:
    try:
        return sum(each.memory_info().rss for each in [process, *process.children(recursive=True)])
    except psutil.Error:
        return 0


def ask_by_threads(rows: Sequence[Mapping[str, object]], port: int, at_once: int) -> list[str]:
    """Send the requests as a script would: each process takes a share of the records."""
    shares = [rows[part::PROCESSES] for part in range(PROCESSES)]
    with ProcessPoolExecutor(PROCESSES) as processes:
        threads = [at_once // PROCESSES] * PROCESSES
        answers = processes.map(_ask_share, shares, [port] * PROCESSES, threads)
        return [text for share in answers for text in share]


def _ask_share(rows: Sequence[Mapping[str, object]], port: int, threads: int) -> list[str]:
    def ask(row: Mapping[str, object]) -> str:
        message = {"role": "user", "content": f"What is {row['left']}+{row['right']}?"}
        body: Any = {"model": "mock", "messages": [message], "max_tokens": 8000}
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        answer = requests.post(url, json=body, timeout=SECONDS)
        answer.raise_for_status()
        return str(answer.json()["choices"][0]["message"]["content"])

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(ask, rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--lm-eval", metavar="PYTHON")
    parser.add_argument("--memory", type=int, metavar="RECORDS")
    parser.add_argument("--script", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.script:
        folder = Path(given.script[0])
        records = [json.loads(line) for line in (folder / "records.jsonl").open()]
        texts = ask_by_threads(records, int(given.script[1]), AT_ONCE)
        (folder / "script.json").write_text(json.dumps(texts))
    elif given.memory:
        watch_memory(given.memory)
    else:
        compare(given.rounds, given.items, given.lm_eval)
