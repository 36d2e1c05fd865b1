"""Whatever a server answers costs the request that it answers, and nothing else.

Every client of a server is asked, with the transport replaced: its outcome is the documented one,
and what is kept of it can be written and read again.
"""

import asyncio
import contextlib
import json
import math
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from services.campaigns.llm.answers import KeptAnswer
from services.contracts.batches.batches import BatchEndpoint, BatchOutput, BatchResponse
from services.contracts.batches.prompt_batches import PromptEndpoint
from services.contracts.rewards.graders import ExactGrader
from services.contracts.rewards.rewards import JudgeReward
from services.contracts.rollouts.multi_turn import MultiTurn
from services.contracts.sampling import Sampling
from services.datasets.append_log import AppendLog, read_records
from services.evaluator.batch.child import _failed, _line
from services.evaluator.batch.outputs import BatchTotals, Outputs
from services.evaluator.batch.requests import BatchRequest
from services.evaluator.batch.server import BatchServer, _reader
from services.evaluator.evaluation.endpoint import Answer, Endpoint, Unanswered
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.evaluation.spec import BenchmarkSpec
from services.evaluator.prompts import endpoints
from services.evaluator.prompts.outputs import write_rows
from services.evaluator.prompts.rows import PromptRow, PromptRows
from services.evaluator.prompts.run import _answered, _output_row
from services.evaluator.prompts.run import _failed as row_of_failure
from services.inference.clients import json_service
from services.inference.clients.chat import ChatCompletion, ChatRequest, InferenceClient
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import ServiceFailed, model_retries
from services.inference.token_engine.base import EngineFailed, TurnSampling
from services.inference.token_engine.vllm import CompletionsTokenEngine, VllmTokenEngine
from services.rewards.functions import ServiceScore
from services.rewards.interface import RewardFailed, Sample
from services.rewards.judge import Judge, JudgeScore
from services.rollouts.log.log import IndexedLog, read_indexed
from services.rollouts.loop import Rollouts
from services.rollouts.models.messages import MessageModel
from tests.support.rollouts import FunctionToolbox, echo, question

URL = "http://127.0.0.1:9/v1"
ONCE = model_retries(attempts=1)
REQUEST = ChatRequest(model="m", messages=[{"role": "user", "content": "Say it."}], max_tokens=8)


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


ODD = st.sampled_from(
    [
        *(None, "", "text", "half \ud83d", "\u2028", "\ufffe", 0, -1, 7, 1.5, math.nan, math.inf),
        *(10**30, True, [], {}, [[]], {"a": None}, ["a"], [{"type": "text", "text": "part"}]),
        *(nested(400), "x" * 5000),
    ]
)


def fields(**usual: Any) -> st.SearchStrategy[dict[str, Any]]:
    """An object with all, some or none of its usual fields, any of them odd."""
    optional = {name: st.just(value) | ODD for name, value in usual.items()}
    strategies = {
        name: value | ODD if isinstance(value, st.SearchStrategy) else optional[name]
        for name, value in usual.items()
    }
    return st.fixed_dictionaries({}, optional=strategies)


CALL = fields(id="c", function=fields(name="echo", arguments='{"text": "a"}'))
MESSAGE = fields(role="assistant", content='{"score": 0.5}', tool_calls=st.lists(CALL, max_size=2))
CHOICE = fields(
    message=MESSAGE,
    finish_reason="stop",
    token_ids=[1, 2],
    logprobs=fields(content=[{"logprob": -1.0}, {"logprob": math.nan}], token_logprobs=[-1, None]),
    weight_versions=[{"version": "default", "start": 0, "end": 2}],
)
ANSWER = fields(
    choices=st.lists(CHOICE | ODD, min_size=1, max_size=2),
    usage=fields(prompt_tokens=7, completion_tokens=2, completion_tokens_details={}),
    error=fields(message="overloaded", code=500),
    model="m",
    score=0.5,
)
BODY = st.one_of(ANSWER.map(lambda value: json.dumps(value).encode()), st.binary(max_size=30))
STATUS = st.sampled_from([200, 200, 200, 400, 401, 500])


@pytest.fixture(scope="module")
def served() -> Iterator[Callable[[int, bytes], None]]:
    """Sets what every request of this module is answered with."""
    answer: list[Any] = [200, b""]

    async def exchange(*_: object) -> Any:
        return json_service._Raw(answer[0], None, False, answer[1])

    def answered_with(status: int, body: bytes) -> None:
        answer[:] = status, body

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JsonService, "_exchange", exchange)
        patch.setattr(endpoints, "ATTEMPTS", 1)
        patch.setattr(endpoints, "model_retries", lambda **_: model_retries(1, 1.0, 0.0, 0.0))
        yield answered_with


async def evaluated(folder: Path) -> None:
    spec = BenchmarkSpec(
        samples=folder, grader=ExactGrader(type="exact"), sampling=Sampling(max_tokens=8)
    )
    sample = EvaluationSample(0, (), (), {})
    async with client() as chat:
        outcome = await Endpoint(chat, "m", spec).ask(REQUEST.messages, sample)
    if isinstance(outcome, Answer):
        outcome.text.encode()
        assert (outcome.completion_tokens or 0) >= 0
    else:
        assert isinstance(outcome, Unanswered)
        outcome.failure.message.encode()


async def batched(folder: Path) -> None:
    request = BatchRequest("a", "m", {"model": "m"})
    totals = BatchTotals(1)
    endpoint = BatchEndpoint.CHAT_COMPLETIONS
    service = JsonService(URL, None, timeout=9, retries=ONCE, connections=1)
    server = BatchServer(service, "", _reader(endpoint), "m", (), asyncio.Event().wait)
    with Outputs(folder, totals) as outputs:
        async with service:
            try:
                answer = await server.send(request.body)
            except ServiceFailed as failed:
                outputs.failed(_failed(request, failed))
            else:
                response = BatchResponse(status_code=200, request_id="r", body=answer.value)
                outputs.answered(_line(request, response=response), answer.value)
                assert answer.value["choices"]
    for name in ("output.jsonl", "errors.jsonl"):
        for line in (folder / name).read_text().splitlines():
            assert BatchOutput.model_validate_json(line).custom_id == "a"
    assert totals.usage.total_tokens >= 0


async def prompted(folder: Path) -> None:
    endpoint = PromptEndpoint(base_url=URL, model="m")
    pool = endpoints.EndpointPool(
        [endpoint], lambda _: None, concurrency=1, timeout_seconds=9.0, patience_seconds=9.0
    )
    async with pool:
        try:
            row = _answered(0, await pool.ask({"messages": REQUEST.messages}))
        except endpoints.Unanswered as unanswered:
            row = row_of_failure(0, unanswered)
    with PromptRows(folder, 1) as rows:
        rows.append(row)
        (kept,) = rows.in_order()
    assert isinstance(kept, PromptRow)
    for suffix in (".json", ".jsonl", ".csv"):
        write_rows([_output_row(kept)], folder / f"out{suffix}", parsed=False)


async def judged(folder: Path) -> None:
    settings = JudgeReward.model_validate({"type": "judge", "prompt": "Grade it.", "model": "m"})
    async with client() as chat:
        try:
            score = await JudgeScore(settings, Judge(chat, "m", URL)).score(
                Sample.of_answer("a", REQUEST.messages, ["a"], {})
            )
        except RewardFailed as failed:
            failed.message.encode()
        else:
            assert 0.0 <= score.value <= 1.0


async def scored(folder: Path) -> None:
    service = JsonService(URL, None, timeout=9, retries=ONCE, connections=1)
    async with service:
        with contextlib.suppress(RewardFailed):
            await ServiceScore(URL, service).score(Sample.of_answer("a", [], ["a"], {}))


async def played(folder: Path) -> None:
    turns = MultiTurn.model_validate({"multi_turn_enable": True, "max_tool_calls": 2})
    async with client() as chat:
        model = MessageModel(chat, "m", turns, Sampling(max_tokens=100), {})
        rollouts = Rollouts(model, FunctionToolbox({"echo": echo}), turns)
        trajectory = await rollouts.play(question(), seed=0)
    with IndexedLog(folder) as log:
        log.append(trajectory)
    assert [each.id for each in read_indexed(folder)] == [trajectory.id]


async def sampled(folder: Path) -> None:
    for kind in (CompletionsTokenEngine, VllmTokenEngine):
        async with kind(URL, None, "m", retries=ONCE) as engine:
            try:
                tokens = await engine.generate([1], TurnSampling(max_tokens=8))
            except EngineFailed:
                continue
        assert all(math.isfinite(each) for each in tokens.log_probs)


async def kept_by_a_campaign(folder: Path) -> None:
    kept = KeptAnswer(folder, "here", REQUEST)
    async with client() as chat:
        try:
            completion = await chat.chat(REQUEST, keep=kept.write)
        except ServiceFailed as failed:
            unread = (failed.unreadable, failed.status)
            completion = None
    if completion is None:
        assert unread in {(1, 200), (0, 400), (0, 401), (0, 500)}
        return
    again = kept.read()
    assert again is not None
    assert ChatCompletion.of(again, 0.0, 1).content == completion.content


def client() -> InferenceClient:
    return InferenceClient(URL, None, 9.0, retries=ONCE)


@pytest.mark.parametrize(
    "ask",
    [evaluated, batched, prompted, judged, scored, played, sampled, kept_by_a_campaign],
    ids=lambda ask: ask.__name__,
)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@example(200, json.dumps({"choices": [{"message": {"content": "half \ud83d"}}]}).encode())
@example(400, json.dumps({"error": {"message": "half \ud83d"}}).encode())
@example(400, json.dumps(nested(400)).encode())
@example(200, json.dumps({"choices": [{"message": {"content": "a"}}], "x": nested(400)}).encode())
@given(STATUS, BODY)
def test_no_answer_costs_more_than_its_request(
    served: Callable[[int, bytes], None],
    ask: Callable[[Path], Coroutine[Any, Any, None]],
    status: int,
    body: bytes,
) -> None:
    served(status, body)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(ask(Path(folder)))


def test_a_record_that_is_appended_is_one_line_for_every_reader(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = PromptRow(index=0, result="a\u2028b\x85 \ud800", usage={"a": [math.nan]})
    with AppendLog[PromptRow](path) as log:
        log.append(row)

    assert len(path.read_text(encoding="utf-8").splitlines()) == 1
    ((_, kept),) = read_records(path, PromptRow)
    assert (kept.result, kept.usage) == ("a\u2028b\x85 \ufffd", {"a": [None]})
