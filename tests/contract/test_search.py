"""Text search of jobs, models, files and notes, on every database."""

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


def test_models_files_and_notes_are_found_by_a_text(each_database: GatewayClient) -> None:
    http = each_database.http
    for name in ("Lab/Tiny_100", "lab/tiny-100"):
        http.post("/v1/models", json={"id": name, "hub_id": name})
    files = [
        http.post(
            "/v1/files",
            data={"purpose": "user_data"},
            files={"file": (f"Rows {share} of all.jsonl", b"{}\n")},
        ).json()["id"]
        for share in ("20%", "200")
    ]
    jobs = [each_database.submit("succeed") for _ in range(2)]
    notes = [
        http.post(f"/v1/jobs/{job}/notes", json={"text": f"Loss jumps by {share}"}).json()["id"]
        for job, share in zip(jobs, ("30%", "300"), strict=True)
    ]

    def found(path: str, text: str, after: str | None = None) -> list[str]:
        page = http.get(path, params={"text": text} | ({"after": after} if after else {})).json()
        return [each["id"] for each in page["data"]]

    assert found("/v1/models", "LAB/TINY") == ["lab/tiny-100", "Lab/Tiny_100"]
    assert found("/v1/models", "tiny_100") == ["Lab/Tiny_100"]
    assert found("/v1/files", "ROWS 20") == [files[1], files[0]]
    assert found("/v1/files", "20%") == found("/v1/files", files[0].upper()) == [files[0]]
    assert found("/v1/notes", "jumps BY") == [notes[1], notes[0]]
    assert found("/v1/notes", "jumps by", after=notes[1]) == found("/v1/notes", "30%") == notes[:1]
    assert [found(path, "none such") for path in ("/v1/models", "/v1/files", "/v1/notes")] == [
        []
    ] * 3
