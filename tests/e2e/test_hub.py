"""Models and datasets of a fake hub on loopback."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.demo_1_addition.data import write_data
from services.contracts.data.files import FilePurpose
from services.contracts.evaluation.evaluations import CreateEvaluation, Evaluation
from services.contracts.jobs import JobError, JobStatus
from services.contracts.models.registered import RegisterModel
from services.contracts.rewards.graders import RegexGrader
from services.contracts.sampling import Sampling
from services.contracts.training.fine_tuning import (
    CreateFineTuningJob,
    FineTuningJob,
    Method,
)
from services.contracts.training.offline import SupervisedHyperparameters, SupervisedMethod
from services.contracts.training.optimizer import LoraSettings
from services.core.artifacts import Artifacts
from tests.e2e.conftest import Platform, running_platform
from tests.support.models.hub import Hub, Kind, Repository, running_hub
from tests.support.models.tiny_model import make_tiny_model
from tests.support.processes import free_port
from tests.support.runtimes import installed_runtime

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(900)]

LIMIT_SECONDS = 600.0
TOKEN = "hf_" + "KeepThisOutOfEveryFile"
REVISION = "v1.0"
MODEL = "lab/tiny"
DATASET = "hf://datasets/lab/sums"
SHARD = "model-00001-of-00001.safetensors"
OTHER_WEIGHTS = ("pytorch_model.bin", "model.gguf", "original/consolidated.00.pth")
CLOSED_MODEL = "lab/closed"
CLOSED_DATASET = "lab/closed-sums"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repositories' files. The newest revision of the model is a different, incomplete one."""
    folder = tmp_path_factory.mktemp("repositories")
    make_tiny_model(folder / "tiny")
    write_data(folder / "made", train=200, heldout=10)
    shard(folder / "tiny")
    config = json.loads((folder / "tiny" / "config.json").read_text())
    (folder / "newest").mkdir()
    (folder / "newest" / "config.json").write_text(json.dumps(config | {"vocab_size": 1000}))
    (folder / "sums").mkdir()
    shutil.copy(folder / "made" / "train.jsonl", folder / "sums")
    (folder / "sums" / "README.md").write_text("---\nlicense: cc0-1.0\n---\n# Sums\n")
    return folder


def shard(model: Path) -> None:
    """Shard the weights as in large models, and add files that must not be downloaded."""
    weights = (model / "model.safetensors").rename(model / SHARD).read_bytes()
    header = json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])
    index = {
        "metadata": {},
        "weight_map": {name: SHARD for name in header if name != "__metadata__"},
    }
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    (model / "original").mkdir()
    for other in OTHER_WEIGHTS:
        (model / other).write_bytes(b"the same again")


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[Hub]:
    """A hub where TOKEN grants access to one model and one dataset, not to two others."""
    revisions = {"main": folder / "newest", REVISION: folder / "tiny"}
    data = {"main": folder / "sums"}
    ours, nobody = frozenset({TOKEN}), frozenset[str]()
    with running_hub() as hub:
        hub.add(Repository(Kind.MODEL, MODEL, revisions, readers=ours))
        hub.add(Repository(Kind.DATASET, "lab/sums", data, readers=ours))
        hub.add(Repository(Kind.MODEL, CLOSED_MODEL, revisions, readers=nobody))
        hub.add(Repository(Kind.DATASET, CLOSED_DATASET, data, readers=nobody))
        yield hub


def hub_environment(url: str, token: str, cache: Path) -> dict[str, str]:
    """Environment variables that point processes to the hub at ``url``."""
    # The fake hub is also their proxy, so requests to other hosts fail.
    proxies = {"http_proxy": url, "https_proxy": url, "all_proxy": url, "no_proxy": "127.0.0.1"}
    return {"HF_ENDPOINT": url, "HF_TOKEN": token, "HF_HOME": str(cache), **proxies}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The download cache of the platform's processes."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def platform(hub: Hub, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A platform whose processes use the hub with TOKEN."""
    installed_runtime("vllm")
    environment = hub_environment(hub.url, TOKEN, cache)
    with running_platform(tmp_path_factory.mktemp("platform"), environment) as platform:
        platform.temper.models.register(RegisterModel(id="tiny", hub_id=MODEL, revision=REVISION))
        yield platform


def train(platform: Platform, model: str, training_file: str) -> FineTuningJob:
    hyperparameters = SupervisedHyperparameters(
        n_epochs=1,
        batch_size=32,
        learning_rate=1e-3,
        max_seq_length=128,
        lora=LoraSettings(rank=4),
        llamafactory={"save_strategy": "no"},
    )
    request = CreateFineTuningJob(
        model=model,
        training_file=training_file,
        method=Method(supervised=SupervisedMethod(hyperparameters=hyperparameters)),
    )
    job = platform.temper.fine_tuning.create(request)
    platform.temper.jobs.wait(job.id, timeout=LIMIT_SECONDS)
    return platform.temper.fine_tuning.get(job.id)


def evaluate(platform: Platform, model: str, rows: Path) -> Evaluation:
    file = platform.temper.files.upload(rows, FilePurpose.EVALS)
    request = CreateEvaluation(
        model=model, file=file.id, grader=RegexGrader(pattern="."), sampling=Sampling(max_tokens=8)
    )
    job = platform.temper.evaluations.create(request)
    platform.temper.jobs.wait(job.id, timeout=LIMIT_SECONDS)
    return platform.temper.evaluations.get(job.id)


def failure(
    platform: Platform, hub_id: str, revision: str | None = None, training_file: str = DATASET
) -> JobError:
    """The error of a fine-tune of a hub model."""
    name = f"{hub_id}-{revision}"
    platform.temper.models.register(RegisterModel(id=name, hub_id=hub_id, revision=revision))
    return error_of(train(platform, name, training_file))


def error_of(job: FineTuningJob | Evaluation) -> JobError:
    assert job.status is JobStatus.FAILED
    assert job.error is not None
    assert "\n" not in job.error.message
    return job.error


@pytest.fixture(scope="module")
def adapter(platform: Platform) -> FineTuningJob:
    job = train(platform, "tiny", DATASET)
    assert job.status is JobStatus.SUCCEEDED, job.error
    return job


@pytest.fixture(scope="module")
def evaluation(platform: Platform, adapter: FineTuningJob, folder: Path) -> Evaluation:
    return evaluate(platform, str(adapter.fine_tuned_model), folder / "made" / "heldout.jsonl")


def test_a_hub_model_is_trained_on_a_hub_dataset(
    platform: Platform, adapter: FineTuningJob, hub: Hub
) -> None:
    assert adapter.trained_tokens
    assert hub.tokens == {TOKEN}
    model = platform.temper.models.get(str(adapter.fine_tuned_model))
    assert model.base == "tiny"
    assert model.lineage is not None
    assert model.lineage.training_file == DATASET
    folder = Artifacts(platform.home).job(adapter.id) / "output" / "model"
    config = json.loads((folder / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["revision"]) == (MODEL, REVISION)


@pytest.mark.usefixtures("adapter")
def test_only_the_weights_in_use_are_downloaded(cache: Path) -> None:
    snapshots = cache / "hub" / "models--lab--tiny" / "snapshots"

    assert list(snapshots.glob(f"*/{SHARD}"))
    assert not [name for name in OTHER_WEIGHTS if list(snapshots.glob(f"*/{name}"))]


def test_an_adapter_is_evaluated_with_the_base_revision_it_was_trained_on(
    evaluation: Evaluation,
) -> None:
    assert evaluation.status is JobStatus.SUCCEEDED, evaluation.error
    assert evaluation.metrics is not None
    assert (evaluation.metrics.samples, evaluation.metrics.errors) == (10, 0)


@pytest.mark.parametrize(
    ("hub_id", "revision", "message"),
    [
        ("lab/none", None, "{hub} has no model 'lab/none'; a private one needs an HF_TOKEN"),
        (MODEL, "v9", f"model '{MODEL}' has no revision 'v9' on {{hub}}"),
        (MODEL, "main", f"model '{MODEL}' has no weights in safetensors at revision 'main'"),
        (CLOSED_MODEL, REVISION, f"model '{CLOSED_MODEL}' is gated on {{hub}}, and HF_TOKEN gives"),
    ],
    ids=["missing", "missing revision", "without weights", "gated"],
)
def test_a_missing_hub_model_fails_the_job_and_is_named(
    platform: Platform, hub: Hub, hub_id: str, revision: str | None, message: str
) -> None:
    error = failure(platform, hub_id, revision)

    assert (error.code, error.param) == ("model_load_failed", "model")
    assert error.message.startswith(message.format(hub=hub.url.removeprefix("http://")))


@pytest.mark.parametrize(
    ("name", "message"),
    [("lab/none", "has no dataset 'lab/none'"), (CLOSED_DATASET, "HF_TOKEN gives no access to it")],
    ids=["missing", "gated"],
)
def test_a_missing_hub_dataset_fails_the_job_and_is_named(
    platform: Platform, name: str, message: str
) -> None:
    error = error_of(train(platform, "tiny", f"hf://datasets/{name}"))

    assert (error.code, error.param) == ("dataset_load_failed", "training_file")
    assert f"dataset '{name}'" in error.message
    assert message in error.message


def test_an_evaluation_of_a_missing_hub_model_fails_and_names_it(
    platform: Platform, folder: Path
) -> None:
    platform.temper.models.register(RegisterModel(id="none", hub_id="lab/none"))

    error = error_of(evaluate(platform, "none", folder / "made" / "heldout.jsonl"))

    assert error.code == "tokenizer_unavailable"
    assert "lab/none" in error.message


def test_a_gated_model_needs_a_token(hub: Hub, tmp_path: Path) -> None:
    environment = hub_environment(hub.url, "", tmp_path / "cache")
    with running_platform(tmp_path, environment, ["trainer"]) as platform:
        error = failure(platform, CLOSED_MODEL)

    assert error.message.endswith("and there is no HF_TOKEN")


def test_an_unreachable_hub_fails_the_job_with_its_url(folder: Path, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    environment = hub_environment(f"http://{address}", TOKEN, tmp_path / "cache")
    with running_platform(tmp_path, environment, ["trainer"]) as platform:
        file = platform.temper.files.upload(folder / "made" / "train.jsonl", FilePurpose.FINE_TUNE)
        error = failure(platform, MODEL, training_file=file.id)

    assert error.code == "model_load_failed"
    assert f"model '{MODEL}' is not in the cache, and {address} cannot be reached" in error.message


@pytest.mark.usefixtures("evaluation")
def test_the_hub_token_is_never_written_to_disk(platform: Platform) -> None:
    error_of(train(platform, "tiny", "hf://datasets/lab/unknown"))

    files = [path for path in platform.home.rglob("*") if path.is_file()]
    assert {"log.txt", "spec.json", "vllm.log", "temper.db"} <= {path.name for path in files}
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []
