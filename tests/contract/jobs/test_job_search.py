"""Text search of jobs, on every database."""

from tests.support.gateway import GatewayClient


def test_jobs_are_found_by_a_text(each_database: GatewayClient) -> None:
    job = each_database.submit("succeed", metadata={"team": "Blue 50%"})
    other = each_database.submit("fail", metadata={"team": "Blue 500"})

    def found(text: str) -> list[str]:
        page = each_database.http.get("/v1/jobs", params={"text": text}).json()
        return [each["id"] for each in page["data"]]

    assert found("blue 50%") == found(job.upper()) == [job]
    assert found("BLUE") == found("base")[:2] == [other, job]
    assert found("fail") == [other]
    assert found("nothing of that name") == []
