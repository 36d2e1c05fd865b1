"""A real gateway without workers: the tests advance the jobs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.core.db.engine import Database
from temper.cli.main import main
from tests.integration.cli.gateway import Gateway
from tests.support.processes import free_port, is_ready, running
from tests.support.waiting import wait_for

ROW = {"messages": [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}]}


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("home")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = ["serve", "api", "--port", str(port)]
    with running("temper", command, {"TEMPER_HOME": str(home)}, home / "api.log") as process:
        wait_for(lambda: is_ready(process, url), "the gateway is ready")
        database = Database(f"sqlite:///{home / 'temper.db'}")
        try:
            yield Gateway(url, home, database)
        finally:
            database.close()


@pytest.fixture(autouse=True)
def folder(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a job file and its data, and the settings of the gateway."""
    monkeypatch.setenv("TEMPER_API_URL", gateway.url)
    monkeypatch.setenv("TEMPER_HOME", str(gateway.home))
    monkeypatch.chdir(tmp_path)
    # Unique content per test, so that uploads are not deduplicated across tests.
    (tmp_path / "train.jsonl").write_text(json.dumps({**ROW, "id": tmp_path.name}) + "\n")
    (tmp_path / "job.yaml").write_text(
        "kind: fine_tuning\nmodel: cli-base\ntraining_file: train.jsonl\n"
    )
    return tmp_path


@pytest.fixture(autouse=True, scope="session")
def base_model(gateway: Gateway) -> str:
    model = gateway.home / "models" / "cli-base"
    model.mkdir(parents=True)
    (model / "config.json").write_text('{"model_type": "qwen3"}')
    (model / "model.safetensors").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEMPER_API_URL", gateway.url)
        assert main(["models", "register", "cli-base", "--folder", "cli-base"]) == 0
    return "cli-base"
