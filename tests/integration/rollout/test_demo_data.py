"""Tool results in the demonstration data match what the tools return."""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice

import pytest

from examples.demo_3_tool_use.tasks import (
    INDEX,
    Arithmetic,
    Facts,
    ToolQuestion,
    ToolTask,
    corpus_rows,
)
from services.core.operator_environment import OperatorEnvironment
from services.rollouts.tools import ToolReply, open_toolbox
from tests.support.corpora.passage import Passage
from tests.support.sandbox import running_sandbox
from tests.support.search.library import LIBRARY
from tests.support.search.service import build_index, running_retrieval


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorEnvironment]:
    folder = tmp_path_factory.mktemp("demo")
    build_index(folder / "indexes", "library", LIBRARY)
    corpus = [Passage(**row) for row in corpus_rows()]
    build_index(folder / "indexes", INDEX, corpus)
    with (
        running_sandbox(folder) as sandbox,
        running_retrieval(folder, folder / "indexes", "library") as retrieval,
    ):
        yield OperatorEnvironment(sandbox_url=sandbox.url, retrieval_url=retrieval.url)


@pytest.mark.parametrize("task", [Arithmetic(), Facts()], ids=lambda task: task.name)
def test_tool_results_in_the_data_match_the_tools(
    task: ToolTask, environment: OperatorEnvironment
) -> None:
    questions = list(islice(task.questions(1000, seed=7), 40))

    replies = asyncio.run(_asked(task, questions, environment))

    assert [reply.text for reply in replies] == [question.result for question in questions]
    for question in questions:
        assert question.answer in question.result


@pytest.mark.parametrize("task", [Arithmetic(), Facts()], ids=lambda task: task.name)
def test_questions_are_distinct_and_deterministic(task: ToolTask) -> None:
    questions = list(task.questions(3000, seed=1))

    assert len({question.text for question in questions}) == 3000
    assert questions == list(task.questions(3000, seed=1))
    assert questions != list(task.questions(3000, seed=2))


async def _asked(
    task: ToolTask, questions: Sequence[ToolQuestion], environment: OperatorEnvironment
) -> list[ToolReply]:
    async with open_toolbox([task.tool], environment) as toolbox:
        name = toolbox.schemas[0]["function"]["name"]
        calls = (toolbox.call(name, question.arguments) for question in questions)
        return await asyncio.gather(*calls)
