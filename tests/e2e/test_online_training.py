"""The examples of online training, scaled down, from their files to trained models."""

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import openai
import pytest

from services.contracts.jobs import JobKind, JobStatus
from services.contracts.models.registered import RegisterModel
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.core.process.runtimes import REPOSITORY
from temper.submission.job_file import read_job_file
from temper.submission.submission import Submission
from temper.submission.submit import Reporting, submit
from tests.e2e.conftest import Platform, running_platform
from tests.support.models.tiny_model import make_tiny_model
from tests.support.runtimes import installed_runtime
from tests.support.sandbox import running_sandbox
from tests.support.search.library import LIBRARY
from tests.support.search.service import build_index, running_retrieval

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(900)]

EXAMPLES = REPOSITORY / "examples/online"
LIMIT_SECONDS = 600.0
SMALL = {
    "steps": 2,
    "prompts_per_step": 2,
    "samples_per_prompt": 2,
    "max_prompt_length": 3000,
    "dynamic_sampling": None,  # an untrained model gets the same reward everywhere
    "overlong": None,
    "mini_batches": 1,
}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A platform with the examples' model and both tool services."""
    installed_runtime("vllm")
    home = tmp_path_factory.mktemp("online")
    make_tiny_model(home / "models" / "tiny-base")
    build_index(home / "indexes", "library", LIBRARY)
    with ExitStack() as running:
        sandbox = running.enter_context(running_sandbox(home))
        retrieval = running.enter_context(running_retrieval(home, home / "indexes", "library"))
        tools = {"TEMPER_SANDBOX_URL": sandbox.url, "TEMPER_RETRIEVAL_URL": retrieval.url}
        platform = running.enter_context(running_platform(home, tools, ["trainer"]))
        platform.temper.models.register(RegisterModel(id="tiny-base", folder="tiny-base"))
        yield platform


def small(submission: Submission) -> Submission:
    """The same job, reduced to a few short rollouts."""
    request = submission.request
    assert isinstance(request, CreateFineTuningJob)
    body = request.model_dump(mode="json", exclude_none=True)
    (settings,) = [
        method["hyperparameters"] for name, method in body["method"].items() if name != "type"
    ]
    settings |= {
        name: value for name, value in SMALL.items() if name in settings or name == "steps"
    }
    settings["multi_turn"]["max_total_response_length"] = 64
    settings["sampling"]["max_tokens"] = 32
    settings["engine"] = {"max_model_len": 4096, "cpu_kv_cache_gib": 0.1}
    return Submission(CreateFineTuningJob.model_validate(body), submission.files)


@pytest.mark.parametrize(
    "name",
    [
        "retool",
        "distillation",
        # Critics, losses and search are tested in `make test-rest`, without an engine.
        pytest.param("search_r1", marks=pytest.mark.long),
        pytest.param("ppo", marks=pytest.mark.long),
    ],
)
def test_an_example_trains_a_model(platform: Platform, name: str, tmp_path: Path) -> None:
    submission = read_job_file(EXAMPLES / f"{name}.yaml", tmp_path)

    created = submit(platform.temper, small(submission), Reporting(print, lambda _: nullcontext()))
    platform.temper.jobs.wait(created.id, timeout=LIMIT_SECONDS)

    job = platform.temper.fine_tuning.get(created.id)
    assert job.status is JobStatus.SUCCEEDED, job.error
    assert job.fine_tuned_model is not None
    model = platform.temper.models.get(job.fine_tuned_model)
    assert model.lineage is not None
    assert model.lineage.job_id == job.id
    events = platform.temper.jobs.events(job.id, most=200).data
    steps = [each.data["step"] for each in events if each.type == "metrics" and each.data]
    assert sorted(steps) == [1, 2]
    played = platform.temper.trajectories.page(job.id, JobKind.FINE_TUNING, most=100).data
    assert played
    trajectory = platform.temper.trajectories.get(job.id, played[0].id, JobKind.FINE_TUNING)
    assert len(trajectory.response_mask) == len(trajectory.response_token_ids) <= 64


def test_the_policy_of_a_running_training_answers_requests(
    platform: Platform, tmp_path: Path
) -> None:
    submission = read_job_file(EXAMPLES / "ppo.yaml", tmp_path)
    created = submit(platform.temper, small(submission), Reporting(print, lambda _: nullcontext()))
    name = f"run:{created.id}"

    # The request waits for the job's engine, which starts first.
    with openai.OpenAI(
        base_url=f"{platform.url}/v1", api_key="none", max_retries=6, timeout=LIMIT_SECONDS
    ) as client:
        answer = client.chat.completions.create(
            model=name,
            messages=[{"role": "user", "content": "12+34="}],
            max_tokens=4,
            extra_body={"ignore_eos": True},
        )

    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4
    assert platform.temper.fine_tuning.get(created.id).status is JobStatus.RUNNING
    platform.temper.fine_tuning.cancel(created.id)
    platform.temper.jobs.wait(created.id, timeout=LIMIT_SECONDS)
