"""The retrieval service of a local stack: reached through the gateway, and with keys."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from temper.stack.services import Service
from tests.support.stack import DEADLINE, Home, all_processes_ended, home_in

KEY = "the user's"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path / "home") as home:
        yield home


def retrieve(url: str, key: str | None = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    body = {"queries": ["sort a list in place"], "topk": 1, "return_scores": True}
    return httpx.post(f"{url}/retrieve", json=body, headers=headers, timeout=DEADLINE)


def test_a_new_stack_answers_searches_through_a_gateway_with_keys(home: Home) -> None:
    home.variables["TEMPER_API_KEY_HASHES"] = hashlib.sha256(KEY.encode()).hexdigest()
    process, state = home.up()

    answer = retrieve(state.url, KEY)
    assert answer.status_code == 200, answer.text
    ((hit,),) = answer.json()["result"]
    assert "sort" in hit["document"]["contents"]
    with_basic = state.url.replace("http://", f"http://any:{hashlib.sha256(b'no').hexdigest()}@")
    assert retrieve(with_basic).status_code == 401
    assert retrieve(state.url).status_code == 401
    (url,) = [each.url for each in state.services if each.name is Service.RETRIEVAL]
    assert url is not None
    assert retrieve(url).status_code == 401
    assert retrieve(url, KEY).status_code == 200

    process.terminate()
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert all_processes_ended(state)
