"""Campaigns of a task file, all validated before the first one is created."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.evaluation.named_benchmarks import BENCHMARKS
from temper.formats.campaign_environment import THINKING, CampaignEnvironment, judge_of
from temper.formats.campaign_tasks import (
    DEFAULT_CARDS,
    DEFAULT_TIMEOUT,
    CampaignTask,
    first_problem,
    read_cards,
    read_duration,
)
from temper.submission.benchmark_sources import BENCHMARK_ROWS, describe_benchmark
from temper.submission.submission import SubmissionError

MOST_LOOPS = 1000
"""Effectively unlimited: a task's time limit ends its loops."""
ANSWER_TOKENS = 8192
"""Per answer to an item: published benchmarks ask for reasoning."""
ROW_SUFFIXES = (".jsonl", ".json", ".parquet")
DATASET_SUFFIX = ".jsonl"
"""The suffix that data scripts expect."""
_ENDPOINT_FIELDS = ("base_url", "attempts", "retry_seconds")
_UPLOADED_LATER = "file-of-the-batch"


@dataclass(frozen=True)
class PlannedCampaign:
    """A task: a validated request without its files, and the sources of their rows.

    ``rows`` is a path or hf://datasets/...; ``datasets`` has None for registered ones; ``cards``
    are the GPUs that the task occupies.
    """

    request: CreateCampaign
    rows: str
    datasets: Mapping[str, Path | None]
    cards: frozenset[int | str]

    def ready(self, file: str, datasets: Mapping[str, str], after: Sequence[str]) -> CreateCampaign:
        """Return the request with the ids of its files and of the campaigns it waits for."""
        given = [
            each.model_copy(update={"file": datasets.get(each.name, "")})
            for each in self.request.datasets
        ]
        return self.request.model_copy(
            update={"file": file, "datasets": given, "after": list(after)}
        )


def plan_campaigns(
    tasks: Sequence[CampaignTask], environment: CampaignEnvironment
) -> list[PlannedCampaign]:
    """Plan a campaign per task; a task's values override the environment's.

    Raises `SubmissionError` with the task and the field.
    """
    planned = []
    for number, task in enumerate(tasks):
        try:
            planned.append(_plan(task, environment))
        except ValidationError as error:
            raise SubmissionError(f"tasks[{number}]: {first_problem(error)}") from error
        except ValueError as error:
            raise SubmissionError(f"tasks[{number}].{error}") from error
    return planned


def predecessors(planned: Sequence[PlannedCampaign]) -> list[list[int]]:
    """For each task, return the earlier tasks it waits for: the last one on each of its cards."""
    last: dict[int | str, int] = {}
    found = []
    for number, task in enumerate(planned):
        found.append(sorted({last[card] for card in task.cards if card in last}))
        last.update(dict.fromkeys(task.cards, number))
    return found


def _plan(task: CampaignTask, environment: CampaignEnvironment) -> PlannedCampaign:
    model = task.model or environment.model
    if model is None:
        raise ValueError("model: is missing, and there is no FT_BASE_MODEL")
    benchmark = task.benchmark or environment.benchmark
    if benchmark is None:
        raise ValueError("benchmark: is missing, and there is no FT_TARGET_BENCHMARK")
    if benchmark not in BENCHMARKS:
        known = ", ".join(sorted(BENCHMARKS))
        raise ValueError(f"benchmark: no benchmark {benchmark!r}; there are {known}")
    datasets = datasets_of(environment)
    cards = _read_field("gpus", read_cards, _first(task.gpus, environment.cards, DEFAULT_CARDS))
    seconds = _read_field("timeout", read_duration, task.timeout or DEFAULT_TIMEOUT)
    body: dict[str, Any] = deepcopy(environment.body)
    body.setdefault("llm", {})
    if task.port is not None:
        body["llm"]["base_url"] = f"http://localhost:{task.port}/v1"
    if "base_url" not in body["llm"]:
        raise ValueError("port: is missing, and the environment file has no OPENAI_API_BASE")
    if "model" not in body["llm"]:
        raise ValueError("model: of the LLM is missing: the environment file needs CHAT_MODEL")
    sampling = {"max_tokens": ANSWER_TOKENS, **body.get("sampling", {})}
    budget = {**body.get("budget", {}), "loops": MOST_LOOPS, "hours": seconds / 3600}
    request = {
        **body,
        "base_model": model,
        "benchmark": benchmark,
        "scenario": _scenario(task, environment, benchmark),
        "file": _UPLOADED_LATER,
        "datasets": [
            {"name": name, "file": _UPLOADED_LATER if path else ""}
            for name, path in datasets.items()
        ],
        "devices": cards or None,
        "sampling": sampling,
        "budget": budget,
        "script_llms": script_llms(environment, body["llm"]),
        "judge": judge_of(environment, benchmark),
    }
    return PlannedCampaign(
        CreateCampaign.model_validate(request),
        rows_of(benchmark, environment.folder),
        datasets,
        frozenset(cards),
    )


def script_llms(environment: CampaignEnvironment, llm: dict[str, Any]) -> dict[str, Any] | None:
    """Return the models that data scripts may call, at the endpoint of the LLM, which is the strong
    one by default."""
    if not (environment.strong_models or environment.weak_models):
        return None
    endpoint = {key: llm[key] for key in _ENDPOINT_FIELDS if key in llm}
    strong = environment.strong_models or [llm["model"]]
    concurrency = environment.script_calls_at_once
    return {
        "strong": [{**endpoint, "model": model} for model in strong],
        "weak": [{**endpoint, "model": model} for model in environment.weak_models],
        **({} if concurrency is None else {"calls_at_once": concurrency}),
    }


def _first(*texts: str | None) -> str:
    return next(text for text in texts if text is not None)


def _read_field(name: str, read: Any, text: str) -> Any:
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _scenario(task: CampaignTask, environment: CampaignEnvironment, benchmark: str) -> str:
    """Describe the target, the benchmark, and the format of answers."""
    own = task.benchmark_description
    if own is None and benchmark == environment.benchmark:
        own = environment.benchmark_description
    target = describe_target(task.scenario or environment.scenario, benchmark, own)
    return f"{target}\n\n{THINKING}" if environment.thinks else target


def describe_target(scenario: str | None, benchmark: str, description: str | None) -> str:
    """Describe target and benchmark to the LLM."""
    asks = f"The benchmark {benchmark}: {description or describe_benchmark(benchmark)}"
    return f"{scenario}\n\n{asks}" if scenario else asks


def rows_of(benchmark: str, folder: Path | None) -> str:
    """Return a local file below FT_FILE_PATH/benchmarks, or the published dataset."""
    local = _local(folder, "benchmarks", benchmark, ROW_SUFFIXES)
    if local is not None:
        return str(local)
    if benchmark not in BENCHMARK_ROWS:
        raise ValueError(
            f"benchmark: the rows of {benchmark} are not below FT_FILE_PATH/benchmarks"
        )
    return BENCHMARK_ROWS[benchmark]


def datasets_of(environment: CampaignEnvironment) -> dict[str, Path | None]:
    """Return the datasets of FT_DATASET, else all: a file below FT_FILE_PATH/datasets, or None for
    a registered one. An empty result means all registered ones."""
    folder, names = environment.folder, environment.datasets
    if names is None:
        place = folder / "datasets" if folder is not None else None
        files = sorted(place.iterdir()) if place is not None and place.is_dir() else []
        names = sorted({path.stem for path in files if path.suffix == DATASET_SUFFIX})
    return {name: _local(folder, "datasets", name, (DATASET_SUFFIX,)) for name in names}


def _local(folder: Path | None, kind: str, name: str, suffixes: Sequence[str]) -> Path | None:
    if folder is None or "/" in name or name.startswith("."):
        return None
    paths = (folder / kind / f"{name}{suffix}" for suffix in suffixes)
    return next((path for path in paths if path.is_file()), None)
