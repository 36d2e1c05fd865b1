"""The proxy through which data scripts ask LLMs."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from services.campaigns.scripts.calls import script_token
from services.campaigns.scripts.proxy import serving_proxy
from services.campaigns.settings import CampaignSettings
from services.contracts.jobs import JobStatus
from services.core.db.tables import CampaignScriptRow
from services.jobs.campaign_records import close_script, open_script
from services.jobs.store import get_job, move_job
from tests.support.campaigns.run import StoredCampaign
from tests.support.campaigns.scripted_llm import ScriptedLlm
from tests.support.processes import free_port

SCRIPT = "a" * 64
SECRET = "the-endpoint's-key"
ASKED = [{"role": "user", "content": "Say it."}]


class Asked:
    """A proxy, the LLM behind it, and a script of the campaign."""

    def __init__(self, campaign: StoredCampaign, llm: ScriptedLlm) -> None:
        self.campaign = campaign
        self.llm = llm
        self.settings = CampaignSettings(
            home=campaign.settings.home,
            campaign_script_key="script-key",
            campaign_proxy_port=free_port(),
            endpoint_keys={llm.origin: SECRET},
        )
        self.token = script_token(self.settings, SCRIPT)

    def create(self, calls: int = 100, at_once: int = 16, **request: Any) -> None:
        """Create the campaign, whose script begins."""
        price = {"prompt": 1e6, "completion": 1e6}  # 1 a token
        own = {"base_url": f"{self.llm.origin}/v1", "price": price}
        strong = {**own, "model": "strong", "max_tokens": 50}
        llms = {"strong": [strong], "weak": [{**own, "model": "weak"}]}
        llms |= {"calls": calls, "calls_at_once": at_once}
        self.campaign.create(llm={**own, "model": "main"}, script_llms=llms, **request)
        with self.campaign.database.write() as session:
            open_script(session, SCRIPT, self.campaign.id)

    def ask(self, token: str | None = None, **body: Any) -> httpx.Response:
        """Ask for a completion."""
        return self.send("/chat/completions", {"model": "strong", "messages": ASKED, **body}, token)

    def send(self, path: str, body: Any = None, token: str | None = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        url = f"{self.settings.proxy_url}/v1{path}"
        method = "GET" if body is None else "POST"
        return httpx.request(method, url, json=body, headers=headers, timeout=60)

    def used(self) -> CampaignScriptRow:
        with self.campaign.database.read() as session:
            return session.get_one(CampaignScriptRow, SCRIPT)


@pytest.fixture
def proxy(campaign: StoredCampaign) -> Iterator[Asked]:
    with ScriptedLlm(lambda _: "It is said.") as llm:
        asked = Asked(campaign, llm)
        with serving_proxy(campaign.database, asked.settings):
            yield asked


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_a_script_is_answered_and_what_it_uses_is_counted(proxy: Asked) -> None:
    proxy.create()

    first, second = (
        proxy.ask(),
        proxy.ask(
            model="weak", stream=False, n=1, user="me", response_format={"type": "json_object"}
        ),
    )

    assert first.json()["choices"][0]["message"]["content"] == "It is said."
    assert second.status_code == 200
    used = proxy.used()
    assert (used.calls, used.prompt_tokens, used.completion_tokens) == (2, 200, 20)
    assert (used.cost, used.refusal) == (220.0, None)
    assert proxy.campaign.run().budget.tokens == 220
    assert SECRET not in first.text + str(first.headers)
    assert proxy.llm.requests == [ASKED, ASKED]


def test_a_script_is_answered_by_models_that_name_the_limit_otherwise(proxy: Asked) -> None:
    proxy.create()
    proxy.llm.refused = {"max_tokens": "Use 'max_completion_tokens' instead."}

    answers = [proxy.ask(max_tokens=7), proxy.ask(max_completion_tokens=8)]

    assert [answer.status_code for answer in answers] == [200, 200]
    asked = [body.get("max_completion_tokens") for body in proxy.llm.bodies]
    assert asked == [None, 7, 8]


def test_only_the_campaigns_models_are_listed_and_answered(proxy: Asked) -> None:
    proxy.create()

    assert [each["id"] for each in proxy.send("/models").json()["data"]] == ["strong", "weak"]
    assert code(proxy.ask(model="main")) == (404, "model_not_found")
    assert proxy.send("/embeddings", {"model": "strong", "input": "x"}).status_code == 404
    assert proxy.llm.requests == []


@pytest.mark.parametrize("token", ["x", SECRET, f"{SCRIPT}.", f"{SCRIPT}.{'0' * 64}"])
def test_other_tokens_are_refused(proxy: Asked, token: str) -> None:
    proxy.create()

    assert code(proxy.ask(token)) == (401, "invalid_api_key")
    assert proxy.llm.requests == []


def test_a_script_that_has_ended_is_refused(proxy: Asked) -> None:
    proxy.create()
    with proxy.campaign.database.write() as session:
        close_script(session, SCRIPT)

    assert code(proxy.ask()) == (401, "invalid_api_key")


def test_a_script_of_a_campaign_that_has_ended_is_refused(proxy: Asked) -> None:
    proxy.create()
    with proxy.campaign.database.write() as session:
        job = get_job(session, proxy.campaign.id)
        move_job(session, job, JobStatus.CANCELLED, "Cancelled")

    assert code(proxy.ask()) == (401, "invalid_api_key")
    assert proxy.llm.requests == []


@pytest.mark.parametrize(
    ("calls", "budget", "limit", "answered"),
    [
        (2, {}, "calls", 2),
        (100, {"llm_tokens": 300}, "llm_tokens", 3),  # of 110 each
        (100, {"cost": 100.0}, "cost", 1),
    ],
)
def test_limits_end_a_scripts_calls(
    proxy: Asked, calls: int, budget: dict[str, Any], limit: str, answered: int
) -> None:
    proxy.create(calls, budget=budget)

    answers = [proxy.ask() for _ in range(6)]

    assert [answer.status_code for answer in answers] == [200] * answered + [429] * (6 - answered)
    assert code(answers[-1]) == (429, "insufficient_quota")
    assert limit in answers[-1].text
    assert answers[-1].headers["x-should-retry"] == "false"
    assert len(proxy.llm.requests) == answered
    assert proxy.used().refusal == limit


def test_calls_at_the_same_time_exceed_the_tokens_by_no_more_than_one(proxy: Asked) -> None:
    proxy.create(budget={"llm_tokens": 300})
    proxy.llm.answer_seconds = 0.2

    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(lambda _: proxy.ask(), range(12)))

    assert sum(answer.status_code == 200 for answer in answers) <= 3
    used = proxy.used()
    assert 300 <= used.prompt_tokens + used.completion_tokens < 300 + 110 + 1


def test_no_more_calls_are_under_way_than_the_campaign_allows(proxy: Asked) -> None:
    llm, under_way = proxy.llm, Counter[int]()

    def held(_: object) -> bool:
        number = len(llm.keys) - len(llm.requests)
        under_way[number] += 1
        return under_way[number] % 5 != 0

    proxy.create(at_once=2)
    llm.held = held

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: proxy.ask(), range(8)))

    assert [answer.status_code for answer in answers] == [200] * 8
    assert set(under_way) <= {1, 2}


@pytest.mark.parametrize(
    "body",
    [
        *({"stream": True}, {"n": 2}, {"messages": []}, {"messages": "x"}, {"max_tokens": 0}),
        *({"base_url": "http://elsewhere"}, {"logit_bias": {"1": 5}}),
    ],
)
def test_what_is_not_offered_is_named(proxy: Asked, body: dict[str, Any]) -> None:
    proxy.create()

    answer = proxy.ask(**body)

    assert code(answer) == (400, "invalid_request")
    assert next(iter(body)) in answer.text
    assert proxy.used().calls == 0


@pytest.mark.parametrize("body", ["text", [1], None])
def test_a_body_that_is_no_request_is_refused(proxy: Asked, body: Any) -> None:
    proxy.create()
    headers = {"Authorization": f"Bearer {proxy.token}"}
    url = f"{proxy.settings.proxy_url}/v1/chat/completions"

    answer = httpx.post(url, content=json.dumps(body), headers=headers, timeout=60)

    assert code(answer) == (400, "invalid_request")
    assert httpx.post(url, content=b"x" * (5 << 20), headers=headers, timeout=60).status_code == 413


def test_an_endpoint_that_repeats_the_key_does_not_tell_it_to_the_script(proxy: Asked) -> None:
    proxy.create()
    proxy.llm.answer = lambda _: f"My key is {SECRET}"

    answer = proxy.ask()

    assert answer.json()["choices"][0]["message"]["content"] == "My key is ***"


def test_a_failing_endpoint_is_told_and_costs_no_tokens(proxy: Asked) -> None:
    def fail(_: object) -> str:
        raise RuntimeError("no model is loaded")

    proxy.create()
    proxy.llm.answer = fail
    with proxy.campaign.database.read() as session:
        assert get_job(session, proxy.campaign.id).status is JobStatus.QUEUED

    answer = proxy.ask()

    assert code(answer) == (502, "llm_failed")
    used = proxy.used()
    assert (used.calls, used.prompt_tokens) == (1, 0)
