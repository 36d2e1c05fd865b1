"""The special tokens at which a trained model stops."""

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.contracts.training.optimizer import TrainingType
from services.core.artifacts import ModelSource
from services.datasets.rendering.text_encoding import EncodedText
from services.datasets.rendering.training_tokens import TokenSettings
from services.trainer.offline.rows.dataset import prepare_data
from services.trainer.offline.rows.examples import RENDERED, ExampleLayout, Rendering
from services.trainer.offline.rows.turn_ends import TurnEnds
from services.trainer.offline.spec import DataSource, TrainingSpec
from tests.unit.trainer.chatml import Characters

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


class Glm:
    """A tokenizer of single characters with GLM's markers of roles."""

    special = frozenset({"<|user|>", "<|assistant|>", "<|observation|>"})

    def __call__(self, text: str) -> EncodedText:
        return Characters()(text)


def glm(messages: list[dict[str, Any]], tools: list[dict[str, Any]], *, prompt: bool) -> str:
    """Ends no turn: the marker of the next role does."""
    names = {"tool": "observation"}
    text = str(tools)
    for each in messages:
        called = "".join(call["function"]["name"] for call in each.get("tool_calls", ()))
        text += f"<|{names.get(each['role'], each['role'])}|>\n{each['content']}{called}"
    return text + ("<|assistant|>" if prompt else "")


def ends(folder: Path, rows: list[dict[str, Any]]) -> list[str]:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = TrainingSpec(
        job_id="ftjob-1",
        model=ModelSource(path=Path("/models/base")),
        training_data=DataSource(path=path),
        method=TrainingType.FULL,
        n_epochs=1.0,
        learning_rate=1e-3,
    )
    layout = ExampleLayout(RENDERED, Rendering(glm, Glm(), TokenSettings(4096)))
    return prepare_data(spec, layout, folder / "data", lambda _: None).turn_ends


def test_the_ends_of_all_turns_stop_a_model(tmp_path: Path) -> None:
    asked = {"role": "user", "content": "Q"}
    function = {"name": "f", "arguments": "{}"}
    call = {"id": "a", "type": "function", "function": function}
    calling = {"role": "assistant", "content": "", "tool_calls": [call]}
    answered = {"role": "assistant", "content": "A"}
    told = {"role": "tool", "tool_call_id": "a", "content": "R"}

    apart: list[dict[str, Any]] = [
        {"messages": [asked, calling], "tools": TOOLS},
        {"messages": [asked, answered]},
    ]
    together: list[dict[str, Any]] = [
        {"messages": [asked, calling, told, answered], "tools": TOOLS}
    ]

    for rows in (apart, apart[::-1], together):
        assert set(ends(tmp_path, rows)) == {"<|observation|>", "<|user|>"}


@given(st.lists(st.text("ab<>", max_size=6)), st.sets(st.text("ab<>", max_size=4)))
def test_the_longest_special_token_at_the_end_counts(texts: list[str], special: set[str]) -> None:
    found = TurnEnds(special)
    for text in texts:
        found.add(text)

    wanted = [
        max((each for each in special if each and text.endswith(each)), key=len, default="")
        for text in texts
    ]
    assert found.found == list(dict.fromkeys(end for end in wanted if end))
