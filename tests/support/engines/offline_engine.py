"""Stands in for vLLM without a server: a runtime whose Python plays a script.

The script is a JSON object in the environment variable ``PLAY``: ``before`` is written to stderr
and the process ends with code 1; ``dies_after`` answers kill the process; every prompt longer than
``longest`` characters is refused. Arguments and prompts are kept in the folder ``KEPT``.
"""

import json
import os
import sys
from pathlib import Path
from shlex import quote

from services.core.process.runtimes import STAMP


def make_runtime(runtimes: Path, kept: Path, **play: object) -> None:
    """Write a runtime ``vllm`` that is this program."""
    folder = runtimes / "vllm"
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    variables = f"PLAY={quote(json.dumps(play))} KEPT={quote(str(kept))}"
    program = f"{quote(sys.executable)} {quote(__file__)}"
    python.write_text(f'#!/bin/sh\n{variables} exec {program} "$@"\n')
    python.chmod(0o700)
    (folder / STAMP).write_text(json.dumps({"version": "test", "accelerator": "cpu"}))


def main() -> None:
    """Answer prompts with the number of their characters."""
    play, kept = json.loads(os.environ["PLAY"]), Path(os.environ["KEPT"])
    with open(kept / "arguments.jsonl", "a") as file:
        file.write(json.dumps(sys.argv[1:]) + "\n")
    if before := play.get("before"):
        sys.exit(before)
    answered = 0
    for number, line in enumerate(sys.stdin):
        if not number:
            print("{}", flush=True)
            continue
        if not line.strip():
            return
        with open(kept / "prompts.jsonl", "a") as file:
            file.write(line)
        if answered == play.get("dies_after"):
            sys.exit("RuntimeError: the engine broke")
        prompt = json.loads(line)
        text = prompt["messages"][-1]["content"]
        answer: dict[str, object] = {"index": prompt["index"]}
        if len(text) > play.get("longest", len(text)):
            answer["error"] = "the prompt is too long"
        else:
            answer |= {"texts": [str(len(text))], "finish_reasons": ["stop"], "prompt_tokens": 3}
        print(json.dumps(answer), flush=True)
        answered += 1


if __name__ == "__main__":
    main()
