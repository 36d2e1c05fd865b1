"""``temper campaign start``: one campaign, also with the flags that RD-Agent publishes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import ValidationError
from typer.core import TyperCommand

from services.contracts.campaigns.acceptance import AcceptBy
from services.contracts.campaigns.campaigns import ParentPolicy
from services.contracts.campaigns.seeds import MAX_SEEDS
from temper.cli.gateway import connect
from temper.cli.output import JsonOption, Output, transfer_bar

if TYPE_CHECKING:
    from services.contracts.campaigns.campaigns import Campaign, CreateCampaign
    from services.contracts.data.files import FilePurpose
    from temper.client import Temper
    from temper.formats.campaign_environment import CampaignEnvironment

HOUR_SECONDS = 3600.0
CARDS = "CUDA_VISIBLE_DEVICES"
DEFAULT_LOOPS = 3
MOST_LOOPS = 1000
"""Where other limits are given, they end the loops."""

DatasetOption = Annotated[
    list[str],
    typer.Option(
        "--dataset",
        metavar="NAME[=FILE]",
        help="A registered data set, or a file, that scripts may use; repeatable; none: all "
        "registered ones.",
    ),
]
RoleOption = Annotated[
    list[str],
    typer.Option(
        "--llm-for",
        metavar="ROLE=MODEL[@URL]",
        help="Another LLM for proposal, coding or feedback; repeatable; no URL: that of --llm-url.",
    ),
]

ScriptLlmOption = Annotated[
    list[str],
    typer.Option(
        "--script-llm",
        metavar="strong|weak=MODEL[@URL]",
        help="An LLM that data scripts may ask; repeatable; none: they ask none.",
    ),
]


class PublishedFlags(TyperCommand):
    """Takes ``--checkout False``, as RD-Agent's flags have it, for ``--no-checkout``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite the flag and its value."""
        names = {"true": "--checkout", "false": "--no-checkout"}
        rewritten: list[str] = []
        for argument in args:
            value = argument.removeprefix("--checkout=").lower()
            after = bool(rewritten) and rewritten[-1] == "--checkout"
            if value in names and (after or argument.startswith("--checkout=")):
                if after:
                    rewritten.pop()
                rewritten.append(names[value])
            else:
                rewritten.append(argument)
        return super().parse_args(ctx, rewritten)


def start(
    base_model: Annotated[str, typer.Option(help="A registered model, or one of the hub.")],
    llm_url: Annotated[str | None, typer.Option(help="OpenAI-compatible URL, up to /v1.")] = None,
    llm_model: Annotated[str | None, typer.Option(help="Its model.")] = None,
    llm_for: RoleOption = [],  # noqa: B006 - typer copies it
    script_llm: ScriptLlmOption = [],  # noqa: B006 - typer copies it
    strip_reasoning: Annotated[
        bool,
        typer.Option("--strip-reasoning", help="Leave out <think>...</think> of its answers."),
    ] = False,
    env_file: Annotated[
        Path | None,
        typer.Option(
            help="A file of KEY=value lines, as RD-Agent publishes it, below the options; none: "
            ".env."
        ),
    ] = None,
    read_cache: Annotated[
        bool, typer.Option("--read-cache", help="Take answers that other campaigns have cached.")
    ] = False,
    write_cache: Annotated[
        bool, typer.Option("--write-cache", help="Cache answers for other campaigns.")
    ] = False,
    scenario: Annotated[
        str | None,
        typer.Option(
            "--scenario", "--user-target-scenario", help="What the model shall do, in words."
        ),
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="A benchmark by name, which sets prompts and grader.")
    ] = None,
    benchmark_description: Annotated[
        str | None, typer.Option(help="What it asks for, in words; none: what Temper knows.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Rows of {prompt, gold} or of the benchmark: a path or an uploaded id; none: the "
            "benchmark's published rows, from the hub.",
        ),
    ] = None,
    dataset: DatasetOption = [],  # noqa: B006 - typer copies it
    grader: Annotated[
        Literal["exact", "numeric"] | None,
        typer.Option(help="How answers are graded, without a benchmark; none: exact."),
    ] = None,
    loops: Annotated[
        int | None,
        typer.Option(
            "--loops", "--loop-n", min=1, help="Attempts at most; 3 unless steps or time end them."
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", "--step-n", min=1, help="Steps at most, five a loop.")
    ] = None,
    hours: Annotated[float | None, typer.Option(help="Hours at most.")] = None,
    timeout: Annotated[
        str | None, typer.Option(help="The same as a duration: 90s, 30m, 12h, 2d.")
    ] = None,
    llm_tokens: Annotated[int | None, typer.Option(help="Tokens of the LLM at most.")] = None,
    gpu_hours: Annotated[float | None, typer.Option(help="GPU hours of its jobs at most.")] = None,
    cost: Annotated[float | None, typer.Option(help="Cost of the LLM; needs both prices.")] = None,
    prompt_price: Annotated[
        float | None, typer.Option(help="The LLM's price of a million prompt tokens.")
    ] = None,
    completion_price: Annotated[
        float | None, typer.Option(help="The same of completion tokens.")
    ] = None,
    training_rows: Annotated[
        int | None,
        typer.Option(
            "--training-rows", "--upper-data-size-limit", min=1, help="Rows to train on at most."
        ),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="CARD,...",
            help="GPUs of its jobs, by index or UUID, which they wait for; none: any.",
        ),
    ] = None,
    branches: Annotated[
        int | None, typer.Option(min=1, max=64, help="Loops that run at once; none: 1.")
    ] = None,
    parents: Annotated[
        ParentPolicy, typer.Option(help="Start loops from the best model, or from others, too.")
    ] = ParentPolicy.BEST,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, max=MAX_SEEDS, help="Seeds of each model where the search part is small."
        ),
    ] = 1,
    accept_by: Annotated[
        AcceptBy, typer.Option(help="What of the gain over the best model decides.")
    ] = AcceptBy.INTERVAL,
    accept_above: Annotated[
        float, typer.Option(min=0.0, help="What it must exceed, in the unit of scores.")
    ] = 0.0,
    path: Annotated[
        str | None,
        typer.Option(metavar="ID/LOOP[/STEP]", help="Go back to this step of a campaign."),
    ] = None,
    checkout: Annotated[
        bool, typer.Option(help="With --path: clear what follows; without: in a new campaign.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Start a campaign; files are uploaded first."""
    from temper.formats.campaign_environment import THINKING, judge_of, working_environment
    from temper.submission.campaign_batch import ANSWER_TOKENS, script_llms
    from temper.submission.submit import Reporting, ensure_model

    out = Output(as_json)
    if (prompt_price is None) != (completion_price is None):
        raise typer.BadParameter("--prompt-price and --completion-price go together")
    price = {"prompt": prompt_price, "completion": completion_price}
    limits = {
        "steps": steps,
        "hours": _hours(hours, timeout),
        "llm_tokens": llm_tokens,
        "gpu_hours": gpu_hours,
        "cost": cost,
    }
    others_end_it = any(value is not None for value in limits.values())
    budget = {"loops": loops or (MOST_LOOPS if others_end_it else DEFAULT_LOOPS), **limits}
    with connect() as client:
        if path is not None:
            _show(out, _gone_back(client, base_model, path, checkout, budget))
            return
        environment = working_environment(env_file)
        given = environment.body
        benchmark = benchmark or environment.benchmark
        if benchmark_description is None and benchmark == environment.benchmark:
            benchmark_description = environment.benchmark_description
        llm = _llm(given, llm_url, llm_model, strip_reasoning)
        llm |= {} if prompt_price is None else {"price": price}
        scripts = _script_llms(script_llm, llm["base_url"]) or script_llms(environment, llm)
        target = _scenario(scenario or environment.scenario, benchmark, benchmark_description)
        caches = {"read": read_cache, "write": write_cache}
        own = {
            "base_model": base_model,
            "scenario": f"{target}\n\n{THINKING}" if environment.thinks else target,
            **_grading(benchmark, grader),
            "judge": judge_of(environment, benchmark),
            "llm": llm,
            "llm_by_role": _llm_by_role(llm_for, llm["base_url"], llm["strip_reasoning"]),
            "script_llms": scripts,
            "answer_cache": given.get("answer_cache", {}) | {k: v for k, v in caches.items() if v},
            "budget": given.get("budget", {}) | budget,
            "training_rows": training_rows,
            "devices": _devices(devices or environment.cards or os.environ.get(CARDS)),
            "branches": branches,
            "parents": parents,
            "seeds": {"most": seeds},
            "acceptance": {"by": accept_by, "above": accept_above},
        }
        if environment.shown:
            own["sampling"] = {"max_tokens": ANSWER_TOKENS, **given.get("sampling", {})}
        body: dict[str, Any] = given | {key: each for key, each in own.items() if each is not None}
        for warning in environment.warnings:
            out.note(f"warning: {warning}", "yellow")
        # What is wrong is said before anything is uploaded.
        _checked({**body, "file": "file"})
        if environment.hub_token is not None:
            os.environ["HF_TOKEN"] = environment.hub_token
        body["file"] = _rows(client, file, benchmark, environment.folder)
        body["datasets"] = [_dataset(client, each) for each in dataset or _named(environment)]
        report = Reporting(out.note, lambda label: transfer_bar(out, label))
        ensure_model(client, base_model, report)
        _show(out, client.campaigns.create(_checked(body)))


def _llm(
    given: dict[str, Any], url: str | None, model: str | None, strip_reasoning: bool
) -> dict[str, Any]:
    """The LLM of the options, above that of the environment."""
    options = {"base_url": url, "model": model, "strip_reasoning": strip_reasoning or None}
    own = {key: value for key, value in options.items() if value is not None}
    llm: dict[str, Any] = {"strip_reasoning": False, **given.get("llm", {}), **own}
    if "base_url" not in llm or "model" not in llm:
        raise typer.BadParameter(
            "--llm-url and --llm-model are missing, and so are OPENAI_API_BASE or CHAT_MODEL in "
            "--env-file"
        )
    return llm


def _named(environment: CampaignEnvironment) -> list[str]:
    """The data sets of the environment, as options name them."""
    from temper.submission.campaign_batch import datasets_of

    found = datasets_of(environment)
    return [name if path is None else f"{name}={path}" for name, path in found.items()]


def _show(out: Output, campaign: Campaign) -> None:
    if out.as_json:
        out.document(campaign)
    else:
        out.line(campaign.id)
        out.note(f"follow it:  temper campaign logs -f {campaign.id}", "dim")


def _checked(body: dict[str, Any]) -> CreateCampaign:
    from services.contracts.campaigns.campaigns import CreateCampaign
    from temper.formats.campaign_tasks import first_problem

    try:
        return CreateCampaign.model_validate(body)
    except ValidationError as error:
        raise typer.BadParameter(first_problem(error)) from error


def _hours(hours: float | None, timeout: str | None) -> float | None:
    from temper.formats.campaign_tasks import read_duration

    if timeout is None:
        return hours
    if hours is not None:
        raise typer.BadParameter("--hours and --timeout say the same: give one of them")
    try:
        return read_duration(timeout) / HOUR_SECONDS
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--timeout") from error


def _devices(given: str | None) -> list[int | str] | None:
    from temper.formats.campaign_tasks import read_cards

    try:
        return read_cards(given or "") or None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--devices") from error


def _scenario(scenario: str | None, benchmark: str | None, description: str | None) -> str:
    from services.contracts.evaluation.benchmarks import BENCHMARKS
    from temper.submission.campaign_batch import describe_target

    if benchmark is not None:
        if benchmark not in BENCHMARKS:
            known = ", ".join(sorted(BENCHMARKS))
            raise typer.BadParameter(
                f"no benchmark {benchmark!r}; there are {known}", param_hint="--benchmark"
            )
        return describe_target(scenario, benchmark, description)
    if description is not None:
        raise typer.BadParameter("--benchmark-description needs --benchmark")
    if scenario is None:
        raise typer.BadParameter("--scenario or --benchmark is missing")
    return scenario


def _grading(benchmark: str | None, grader: str | None) -> dict[str, Any]:
    if benchmark is None:
        return {"grader": {"type": grader or "exact"}}
    if grader is not None:
        raise typer.BadParameter("--benchmark sets the grader: give one of them")
    return {"benchmark": benchmark}


def _script_llms(given: list[str], llm_url: str) -> dict[str, list[dict[str, str]]] | None:
    """The LLMs of data scripts, of ``strong=MODEL`` or ``weak=MODEL@URL``."""
    if not given:
        return None
    pools: dict[str, list[dict[str, str]]] = {"strong": [], "weak": []}
    for each in given:
        pool, llm = _named_llm(each, llm_url, list(pools), "--script-llm")
        pools[pool].append(llm)
    if not pools["strong"]:
        raise typer.BadParameter("one of them must be strong=MODEL", param_hint="--script-llm")
    return pools


def _llm_by_role(given: list[str], llm_url: str, strip_reasoning: bool) -> dict[str, Any]:
    """The LLMs of single roles, of ``ROLE=MODEL`` or ``ROLE=MODEL@URL``."""
    from services.contracts.campaigns.llms import LlmRole

    named = (_named_llm(each, llm_url, list(LlmRole), "--llm-for") for each in given)
    return {role: {**llm, "strip_reasoning": strip_reasoning} for role, llm in named}


def _named_llm(
    given: str, llm_url: str, names: Sequence[str], option: str
) -> tuple[str, dict[str, str]]:
    """The LLM of one name, of ``NAME=MODEL`` or ``NAME=MODEL@URL``."""
    name, _, llm = given.partition("=")
    model, at, url = llm.partition("@http")
    if name not in names or not model:
        raise typer.BadParameter(
            f"{given!r} is not {'|'.join(names)}=MODEL[@URL]", param_hint=option
        )
    return name, {"model": model, "base_url": f"http{url}" if at else llm_url}


def _rows(client: Temper, given: str | None, benchmark: str | None, folder: Path | None) -> str:
    """The id of the items' file."""
    from services.contracts.data.files import FilePurpose
    from services.contracts.training.fine_tuning import HUB_DATASET_PREFIX
    from temper.submission.campaign_batch import rows_of
    from temper.submission.hub import fetch_hub_file

    if given is not None:
        return _file_id(client, given, FilePurpose.EVALS)
    if benchmark is None:
        raise typer.BadParameter("--file is missing")
    try:
        rows = rows_of(benchmark, folder)
    except ValueError as error:
        raise typer.BadParameter(f"--file is missing: {error}") from error
    is_of_hub = rows.startswith(HUB_DATASET_PREFIX)
    path = fetch_hub_file(rows) if is_of_hub else Path(rows)
    return client.files.upload(path, FilePurpose.EVALS).id


def _dataset(client: Temper, given: str) -> dict[str, Any]:
    from services.contracts.data.files import FilePurpose

    name, equals, file = given.partition("=")
    if not name or bool(equals) != bool(file):
        raise typer.BadParameter(f"{given!r} is not NAME or NAME=FILE", param_hint="--dataset")
    if not file:
        return {"name": name}
    return {"name": name, "file": _file_id(client, file, FilePurpose.USER_DATA)}


def _file_id(client: Temper, given: str, purpose: FilePurpose) -> str:
    """The id of an uploaded file; a path is uploaded."""
    path = Path(given)
    if given.startswith("file-") and not path.exists():
        return given
    return client.files.upload(path, purpose).id


def _gone_back(
    client: Temper, base_model: str, path: str, checkout: bool, budget: dict[str, Any]
) -> Campaign:
    """The campaign that is rewound to a step, or the fork that begins there."""
    from services.contracts.campaigns.campaigns import ForkCampaign, RewindCampaign
    from temper.formats.campaign_tasks import first_problem

    campaign, loop, step = _place(path)
    found = client.campaigns.get(campaign)
    if found.base_model != base_model:
        raise typer.BadParameter(
            f"the base model of {campaign} is {found.base_model}", param_hint="--base-model"
        )
    try:
        if checkout:
            request = RewindCampaign.model_validate({"loop": loop, "step": step})
            return client.campaigns.rewind(campaign, request)
        fork = ForkCampaign.model_validate({"loop": loop, "step": step, "budget": budget})
    except ValidationError as error:
        raise typer.BadParameter(first_problem(error), param_hint="--path") from error
    return client.campaigns.fork(campaign, fork)


def _place(path: str) -> tuple[str, int, str]:
    from services.contracts.campaigns.loops import StepName

    campaign, _, rest = path.partition("/")
    loop, _, step = rest.partition("/")
    if not campaign or not loop.isascii() or not loop.isdigit():
        raise typer.BadParameter(
            f"{path!r} is not ID/LOOP[/STEP], such as campaign-1/2/coding", param_hint="--path"
        )
    return campaign, int(loop), step or StepName.PROPOSAL.value
