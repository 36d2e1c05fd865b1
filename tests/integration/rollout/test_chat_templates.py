"""Chat templates give the same tokens as transformers does for the same files."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from services.rollouts.chat import open_chat_tokens
from tests.support.chat_templates.conversation import QUESTION, TOOLS, Conversation, ToolTurn, call
from tests.support.chat_templates.families import FAMILIES
from tests.support.runtimes import installed_runtime

_CALLING = Conversation(
    [
        ToolTurn([call(0, "print('é')\n")], ["  é\n\n"], thought="Hm.\nSo."),
        ToolTurn([call(1, "1")], ["<b>1</b>\t🙂"]),
    ]
).messages()
_SYSTEM = {"role": "system", "content": " Be brief. "}
_ANSWER = {"role": "assistant", "content": "It is 4."}
_CONVERSATIONS: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = [
    ([QUESTION], []),
    ([_SYSTEM, QUESTION, _ANSWER, QUESTION], []),
    ([_SYSTEM, QUESTION], TOOLS),
    (_CALLING, TOOLS),
    ([*_CALLING, _ANSWER, QUESTION], TOOLS),
]


@pytest.mark.runtime
@pytest.mark.parametrize("runtime", ["training", "vllm"])
def test_prompts_have_the_same_tokens_as_in_transformers(tmp_path: Path, runtime: str) -> None:
    python = installed_runtime(runtime).python
    folders = {name: tmp_path / name for name in FAMILIES}
    for name, folder in folders.items():
        folder.mkdir()
        FAMILIES[name].write(folder)
    cases: list[dict[str, Any]] = [
        {"folder": str(folders[name]), "messages": messages, "tools": tools}
        for name in FAMILIES
        for messages, tools in _CONVERSATIONS
    ]

    run = subprocess.run(
        [python, "-m", "tests.support.chat_templates.in_transformers"],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    expected = json.loads(run.stdout)
    for case, ids in zip(cases, expected, strict=True):
        chat = open_chat_tokens(Path(case["folder"]))
        assert chat.prompt(case["messages"], case["tools"]) == ids
