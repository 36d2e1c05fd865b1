"""Tool results of verl's tool classes and of ours are the same for the same responses.

Checked with verl 0.7.1.
"""

import json
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from infra.testing.verl import has_verl, verl_folder
from services.contracts.rollouts.multi_turn import Tool
from tests.contract.sandbox.verl_modules import verl_importable
from tests.unit.inference.scripted_server import answer, running_server
from tests.unit.rollouts.tools.toolboxes import call

HITS = [
    {"document": {"contents": '"Nile"\nA river.\nIn Africa.'}, "score": 1.0},
    {"document": {"contents": '"Po"\n長い'}, "score": 0.5},
]


@pytest.fixture(scope="module")
def verl() -> Iterator[Callable[[str], Any]]:
    if not has_verl():
        pytest.skip("verl has not been fetched; `make dev` says why")
    with verl_importable(verl_folder()) as load:
        sys.modules["ray.actor"] = ModuleType("ray.actor")
        yield load


@pytest.mark.parametrize("result", [[HITS], [HITS, HITS[:1]], []])
def test_search_results_match_verl(verl: Callable[[str], Any], result: list[Any]) -> None:
    queries = ["a"] * max(1, len(result))
    with running_server() as server:
        server.script = [answer(body={"result": result})]
        url = f"{server.url}/retrieve"
        search = verl("tools.utils.search_r1_like_utils").perform_single_search_batch
        theirs, _ = search(url, queries)
        ours = call(
            Tool(class_name="search", config={"retrieval_service_url": url}),
            {"query_list": queries},
        ).text
        (_, their_body), (_, our_body) = server.requests

    assert our_body == their_body
    assert json.loads(ours) == json.loads(theirs)
    assert ours == theirs


@pytest.mark.parametrize(
    "result",
    [
        {"status": "Finished", "return_code": 0, "stdout": "a\n", "stderr": "b\n"},
        {"status": "Finished", "return_code": 1, "stdout": "", "stderr": "Traceback"},
        {"status": "TimeLimitExceeded", "return_code": None, "stdout": "a", "stderr": ""},
    ],
)
def test_program_results_match_verl_with_upstream_replies(
    verl: Callable[[str], Any], result: dict[str, Any]
) -> None:
    status = "Success" if result["return_code"] == 0 else "Failed"
    body = {"status": status, "message": "", "compile_result": None, "run_result": result}
    with running_server() as server:
        server.script = [answer(body=body)]
        url = f"{server.url}/run_code"
        run = verl("utils.reward_score.sandbox_fusion.utils")._process_single_case
        _, theirs = run(0, None, None, url, "print(1)", 30, 1024, "python")
        ours = call(
            Tool(
                class_name="sandbox",
                config={"sandbox_fusion_url": url, "upstream_replies": True},
            ),
            {"code": "print(1)"},
        ).text
        (_, their_body), (_, our_body) = server.requests

    finished = theirs["run_status"] == "Finished"
    assert our_body == their_body
    assert ours == (theirs["stdout"] + theirs["stderr"] if finished else "no stdout here")
