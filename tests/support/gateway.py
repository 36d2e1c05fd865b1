"""A short client of the gateway for tests."""

import json
from pathlib import Path
from typing import Any

import httpx

from tests.support.waiting import wait_for


class GatewayClient:
    """Submits stub jobs and watches them."""

    def __init__(self, url: str, home: Path) -> None:
        self.http = httpx.Client(base_url=url, timeout=60)
        self.home = home
        self._file: str | None = None

    def __enter__(self) -> "GatewayClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def submit(self, script: str, **fields: Any) -> str:
        """Queue a job whose stub child follows ``script``; return its id."""
        if self._file is None:
            self._file = self._prepare()
        body = {"model": "base", "training_file": self._file, "suffix": script, **fields}
        answer = self.http.post("/v1/fine_tuning/jobs", json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/v1/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def cancel(self, job_id: str) -> None:
        assert self.http.post(f"/v1/jobs/{job_id}/cancel").status_code == 200

    def events(self, job_id: str) -> list[dict[str, Any]]:
        """All events, oldest first."""
        events: list[dict[str, Any]] = []
        after = None
        while True:
            query = {"limit": 100} | ({"after": after} if after else {})
            page = self.http.get(f"/v1/jobs/{job_id}/events", params=query).json()
            events += page["data"]
            if not page["has_more"]:
                return events[::-1]
            after = page["last_id"]

    def wait_until(self, job_id: str, status: str, seconds: float = 120.0) -> dict[str, Any]:
        """Wait for a status; a job that ends in another one fails the test at once."""

        def probe() -> dict[str, Any] | None:
            job = self.job(job_id)
            final = job["status"] in ("succeeded", "failed", "cancelled")
            assert job["status"] == status or not final, job
            return job if job["status"] == status else None

        return wait_for(probe, f"job {job_id} is {status}", seconds)

    def _prepare(self) -> str:
        """Register a model and upload a file, which stub jobs name but never read."""
        folder = self.home / "models" / "base"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"model_type": "stub"}))
        (folder / "model.safetensors").touch()
        self.http.post("/v1/models", json={"id": "base", "folder": "base"})
        answer = self.http.post(
            "/v1/files",
            files={"file": ("train.jsonl", b'{"messages": []}\n')},
            data={"purpose": "fine-tune"},
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])
