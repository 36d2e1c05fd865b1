"""How the installed LLaMA-Factory tokenizes rows, and which arguments it accepts."""

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest

from services.contracts.llamafactory import arguments as contract
from services.contracts.llamafactory.closed import refusal
from services.contracts.llamafactory.idle import idle
from services.contracts.llamafactory.names import Stage
from services.contracts.training.optimizer import TrainingType

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
        [python, "-m", "services.trainer.offline.library.catalogue", str(target)],
        env=runtime_environment(),
        check=True,
        capture_output=True,
        timeout=DEADLINE,
    )

    assert target.read_text() == contract.CATALOGUE_PATH.read_text()


def test_every_argument_is_accepted_exactly_in_the_stages_that_read_it(python: str) -> None:
    (library,) = Path(python).parents[1].glob("lib/python3*/site-packages/llamafactory")
    known = contract.catalogue().arguments
    readers = _readers(library, [name for name in known if refusal(name) is None])

    for name, stages in readers.items():
        loss = "simpo" if name == "simpo_gamma" else "sigmoid"
        beside = {"pref_loss": loss, "template": "qwen3"}
        accepted = {stage for stage in Stage if idle(name, stage, beside) is None}
        assert accepted == stages & set(Stage), name


def _readers(root: Path, names: list[str]) -> dict[str, set[str]]:
    """The stages whose modules read an argument, for those that no other module reads."""
    texts = {
        path.relative_to(root).parts: path.read_text()
        for folder in ("data", "model", "extras", "train")
        for path in (root / folder).rglob("*.py")
    }
    readers: dict[str, set[str]] = {}
    for name in names:
        pattern = re.compile(rf"(finetuning_args|data_args|model_args|self)\.{name}\b")
        places = [place for place, text in texts.items() if pattern.search(text)]
        of_stages = [place[1] for place in places if place[0] == "train" and len(place) == 3]
        if of_stages and len(of_stages) == len(places):
            readers[name] = set(of_stages) - {"mca", "hyper_parallel"}
    assert {"pref_beta", "kto_chosen_weight", "ppo_epochs", "use_dft_loss"} <= readers.keys()
    return readers


def test_every_argument_is_accepted_exactly_with_the_training_types_that_read_it(
    python: str,
) -> None:
    (library,) = Path(python).parents[1].glob("lib/python3*/site-packages/llamafactory")
    adapter = ast.parse((library / "model/adapter.py").read_text())
    bodies = {
        statement.name: ast.unparse(statement)
        for statement in adapter.body
        if isinstance(statement, ast.FunctionDef)
    }
    elsewhere = "".join(
        path.read_text()
        for folder in ("data", "model", "extras", "train")
        for path in (library / folder).rglob("*.py")
        if path.name != "adapter.py"
    )
    walked = set()
    for name, argument in contract.catalogue().arguments.items():
        if argument.group != "finetuning" or refusal(name) is not None:
            continue
        read = re.compile(rf"finetuning_args\.{name}\b")
        types = {kind for kind in TrainingType if read.search(bodies[f"_setup_{kind}_tuning"])}
        if not types or read.search(elsewhere) or read.search(bodies["init_adapter"]):
            continue
        walked.add(name)
        for kind in TrainingType:
            beside = {"finetuning_type": kind.value, "use_llama_pro": True}
            is_idle = idle(name, Stage.SFT, {**beside, "pissa_init": True, name: 1}) is not None
            assert is_idle == (kind not in types), (name, kind)
    assert {"lora_rank", "use_dora", "freeze_trainable_modules"} <= walked
