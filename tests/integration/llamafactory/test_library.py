"""How the installed LLaMA-Factory tokenizes rows, and which arguments it accepts."""

import json
import subprocess
from pathlib import Path

import pytest

from services.contracts import llamafactory as contract

from .training_job import DEADLINE, Job, runtime_environment

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(600)]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds.",
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
        },
    }
]
TOOL_ROW = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1+2 and 3+4?"},
        {
            "role": "assistant",
            "content": "Adding.",
            "tool_calls": [
                {
                    "id": f"c{index}",
                    "type": "function",
                    "function": {"name": "add", "arguments": json.dumps({"a": a, "b": b})},
                }
                for index, (a, b) in enumerate([(1, 2), (3, 4)])
            ],
        },
        {"role": "tool", "tool_call_id": "c0", "content": "3"},
        {"role": "tool", "tool_call_id": "c1", "content": "7"},
        {"role": "assistant", "content": "3 and 7."},
        {"role": "user", "content": "Thanks"},
        {"role": "assistant", "content": "Welcome."},
    ],
    "tools": TOOLS,
}
CALLS = (
    'Adding.\n<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>\n'
    '<tool_call>\n{"name": "add", "arguments": {"a": 3, "b": 4}}\n</tool_call><|im_end|>'
)
RESULTS = (
    "<|im_start|>user\n<tool_response>\n3\n</tool_response>\n"
    "<tool_response>\n7\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
)


def tokenized(job: Job) -> tuple[str, list[str]]:
    """The full text of the only row, and its spans with loss."""
    done = subprocess.run(
        [job.python, "-m", "tests.integration.llamafactory.tokenized_rows", str(job.directory)],
        env=runtime_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (row,) = json.loads(done.stdout)
    learned, before = [], None
    for token, label in zip(row["tokens"], row["labels"], strict=True):
        assert label in (None, token)
        if label is not None:
            learned.append(learned.pop() + label if before is not None else label)
        before = label
    return "".join(row["tokens"]), learned


def test_with_the_models_template_only_assistant_turns_have_loss(job: Job) -> None:
    job.write([TOOL_ROW], max_seq_len=2048)

    text, learned = tokenized(job)

    assert learned == [CALLS, "3 and 7.<|im_end|>", "Welcome.<|im_end|>"]
    assert text.startswith("<|im_start|>system\nBe brief.\n\nTools, one JSON object a line:\n{")
    assert f"{CALLS}\n{RESULTS}3 and 7.<|im_end|>\n<|im_start|>user\nThanks<|im_end|>" in text


def test_with_a_named_template_only_assistant_turns_have_loss(job: Job) -> None:
    job.write([TOOL_ROW], max_seq_len=2048, template="qwen")

    text, learned = tokenized(job)

    assert learned == [f"{CALLS}\n", "3 and 7.<|im_end|>\n", "Welcome.<|im_end|>\n"]
    assert text.startswith("<|im_start|>system\nBe brief.\n\n# Tools")
    assert f"{CALLS}\n{RESULTS}3 and 7.<|im_end|>\n" in text


def test_the_committed_catalog_matches_the_installed_version(python: str, tmp_path: Path) -> None:
    target = tmp_path / "arguments.json"

    subprocess.run(
        [python, "-m", "services.trainer.offline.catalogue", str(target)],
        env=runtime_environment(),
        check=True,
        capture_output=True,
        timeout=DEADLINE,
    )

    assert target.read_text() == contract.CATALOGUE_PATH.read_text()
