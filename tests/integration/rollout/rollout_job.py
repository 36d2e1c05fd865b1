"""A job directory of the rollout child, and the child as a worker starts it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import AnyHttpUrl

from services.contracts.base import JsonObject
from services.contracts.rewards.rewards import WeightedReward
from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling, Tool
from services.contracts.rollouts.rollouts import RolloutStatistics
from services.contracts.rollouts.trajectories import Trajectory
from services.core.artifacts import ModelSource
from services.core.process.reporter import REPORTS, RESULT
from services.evaluator.rollout.spec import SPEC, RolloutSpec
from services.evaluator.serving import LocalModel, RemoteEndpoint
from services.rollouts.log.log import read_indexed
from tests.support.chat_templates.families import FAMILIES
from tests.support.engines.token_server import MODEL, TokenServer
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_for

DEADLINE = 180.0

ADD = Tool(
    class_name="http",
    tool_schema={
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
            },
        },
    },
)
RIGHT_BOX = WeightedReward.model_validate({"name": "box", "reward": {"type": "retool"}})


def tokenizer_folder(folder: Path) -> Path:
    """A folder with a Qwen-style chat template and tokenizer."""
    folder.mkdir()
    return FAMILIES["qwen2_5"].write(folder)


def question(index: int) -> str:
    return f"What is {index}+{index + 1}?"


def add(text: str, _times: int) -> str | int:
    """A model that calls the adding tool and boxes its reply."""
    asked = text.rpartition("What is ")[2]
    left, right = asked.partition("?")[0].split("+")
    if "<tool_response>" not in asked:
        arguments = {"a": int(left), "b": int(right)}
        call = json.dumps({"name": "add", "arguments": arguments})
        return f"<tool_call>\n{call}\n</tool_call>"
    reply = asked.partition("<tool_response>\n")[2].partition("\n</tool_response>")[0]
    return f"The sum is \\boxed{{{reply}}}"


def reply(arguments: dict[str, Any]) -> str:
    """The adding tool."""
    return str(arguments["a"] + arguments["b"])


class RolloutJob:
    """A job directory with addition questions, and the child that runs them."""

    def __init__(
        self,
        folder: Path,
        model: RemoteEndpoint | LocalModel,
        tokenizer: ModelSource,
        prompts: int,
        **fields: Any,
    ) -> None:
        self.folder = folder
        folder.mkdir()
        rows = [{"question": question(n), "gold": 2 * n + 1} for n in range(prompts)]
        self.write_prompts(rows)
        values: dict[str, Any] = {
            "prompt_type": "plain",
            "system_prompt": None,
            "max_prompts": None,
            "samples_per_prompt": 1,
            "tools": [],
            "multi_turn": MultiTurn(
                multi_turn_enable=True, max_tool_calls=2, max_total_response_length=512
            ),
            "sampling": RolloutSampling(max_tokens=256),
            "rewards": [RIGHT_BOX],
            "seed": 0,
            "max_concurrency": 16,
        }
        spec = RolloutSpec(
            model=model,
            tokenizer=tokenizer,
            prompts=folder / "prompts.jsonl",
            **(values | fields),
        )
        (folder / SPEC).write_text(spec.model_dump_json())

    @classmethod
    def of_server(
        cls,
        folder: Path,
        server: TokenServer,
        prompts: int,
        tokenizer: ModelSource | None = None,
        **fields: Any,
    ) -> "RolloutJob":
        """A job that uses the model and tool of a server, with its tokenizer beside the job."""
        endpoint = RemoteEndpoint(base_url=AnyHttpUrl(f"{server.origin}/v1"), model=MODEL)
        tool = ADD.model_copy(update={"config": {"url": f"{server.origin}/tool"}})
        source = tokenizer or ModelSource(path=folder.parent / "tokenizer")
        return cls(folder, endpoint, source, prompts, **{"tools": [tool], **fields})

    def write_prompts(self, rows: list[JsonObject]) -> None:
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (self.folder / "prompts.jsonl").write_text("".join(lines), encoding="utf-8")

    @contextmanager
    def child(
        self, environment: Mapping[str, str] | None = None
    ) -> Iterator["subprocess.Popen[bytes]"]:
        command = [sys.executable, "-m", "services.evaluator.rollout.child", str(self.folder)]
        with open(self.folder / "log.txt", "ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={"PYTHONPATH": str(REPOSITORY), "PATH": os.environ["PATH"]}
                | {**(environment or {})},
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.terminate()  # a server of the job ends with it
            process.wait(DEADLINE)

    def run(self, seconds: float = DEADLINE, environment: Mapping[str, str] | None = None) -> None:
        with self.child(environment) as process:
            process.wait(seconds)
        assert (self.folder / RESULT).exists(), (self.folder / "log.txt").read_text()

    def wait_for_trajectories(self, number: int) -> None:
        wait_for(lambda: len(self.trajectories()) >= number, f"{number} are finished", DEADLINE)

    def trajectories(self) -> list[Trajectory]:
        return list(read_indexed(self.folder))

    def statistics(self) -> RolloutStatistics:
        result = json.loads((self.folder / RESULT).read_bytes())
        assert result["status"] == "succeeded", result
        return RolloutStatistics.model_validate(result["statistics"])

    def failure(self) -> JsonObject:
        result = json.loads((self.folder / RESULT).read_bytes())
        assert result["status"] == "failed", result
        failure: JsonObject = result["error"]
        return failure

    def reports(self, kind: str) -> list[JsonObject]:
        lines = (self.folder / REPORTS).read_text(encoding="utf-8").splitlines()
        return [report for report in map(json.loads, lines) if report["type"] == kind]
