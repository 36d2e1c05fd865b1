"""/v1/campaigns, as clients see them, over a database of each kind."""

import json

from tests.contract.conftest import NO_ENDPOINT
from tests.support.gateway import GatewayClient

BENCHMARK = [{"prompt": f"{number} + 1?", "gold": str(number + 1)} for number in range(40)]
SUMS = [{"question": "3 + 4?", "answer": "7"}]


def upload(gateway: GatewayClient, rows: list[dict[str, str]], purpose: str) -> str:
    content = "".join(json.dumps(row) + "\n" for row in rows)
    form = {"purpose": purpose}
    answer = gateway.http.post("/v1/files", data=form, files={"file": ("rows.jsonl", content)})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def test_a_campaign_that_has_not_begun_has_a_report(each_database: GatewayClient) -> None:
    each_database.submit("succeed")  # registers the model
    body = {
        "base_model": "base",
        "scenario": "Add.",
        "file": upload(each_database, BENCHMARK, "evals"),
        "datasets": [{"name": "sums", "file": upload(each_database, SUMS, "user_data")}],
        "llm": {"base_url": f"{NO_ENDPOINT}/v1", "model": "m"},
    }
    campaigns = []
    for cache in ({}, {"answer_cache": {"read": True}}):
        answer = each_database.http.post("/v1/campaigns", json={**body, **cache})
        assert answer.status_code == 200, answer.text
        campaigns.append(answer.json()["id"])

    reports = [each_database.http.get(f"/v1/campaigns/{each}/report") for each in campaigns]

    assert [report.status_code for report in reports] == [200, 200]
    assert [report.json()["cost"]["llm_by_role"] for report in reports] == [{}, {}]
