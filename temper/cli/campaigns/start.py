"""``temper campaign start``: one campaign, by its request, options, or an environment file."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from services.contracts.kinds import JobKind
from temper.cli.campaigns.flags import FLAGS, SCENARIO
from temper.cli.campaigns.history import go_back
from temper.cli.output import JsonOption, Output
from temper.cli.requests.flags import takes_request
from temper.cli.requests.start import DryRunOption, FollowOption, read_file, send
from temper.submission.assignments import InvalidOption
from temper.submission.draft import Draft

if TYPE_CHECKING:
    from temper.formats.campaign_environment import CampaignEnvironment

CARDS = "CUDA_VISIBLE_DEVICES"
DEFAULT_LOOPS = 3
OTHER_LIMITS = ("steps", "hours", "llm_tokens", "gpu_hours", "cost")

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EnvironmentOption = Annotated[
    Path | None,
    typer.Option(
        help="File of KEY=value lines, as RD-Agent publishes it; options and the job file "
        "override it. Default: .env."
    ),
]
DescriptionOption = Annotated[
    str | None,
    typer.Option(help="Description of the benchmark; default: Temper's own description."),
]
PathOption = Annotated[
    str | None,
    typer.Option(metavar="ID/LOOP[/STEP]", help="Go back to this step of a campaign."),
]
CheckoutOption = Annotated[
    bool,
    typer.Option(
        help="Clear the step of --path and what follows from it, instead of starting a new "
        "campaign there."
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


@app.command("start", cls=PublishedFlags)
@takes_request(
    "services.contracts.campaigns.campaigns:CreateCampaign",
    FLAGS,
    partial(read_file, JobKind.CAMPAIGN),
)
def start(
    draft: Draft,
    env_file: EnvironmentOption = None,
    benchmark_description: DescriptionOption = None,
    path: PathOption = None,
    checkout: CheckoutOption = True,
    follow: FollowOption = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Start a campaign by a job file, options, or an environment file; files are uploaded first."""
    from temper.formats.campaign_environment import working_environment
    from temper.submission.job_file import submission_of

    other_limits = any(draft.get(f"budget.{name}") is not None for name in OTHER_LIMITS)
    if path is not None:
        budget = {"loops": _loops(other_limits), **draft.body.get("budget", {})}
        go_back(path, checkout, draft.body.get("base_model"), budget, as_json)
        return
    environment = working_environment(env_file)
    for warning in environment.warnings:
        Output(as_json).note(f"warning: {warning}", "yellow")
    draft.default("budget.loops", _loops(other_limits))
    _complete(draft, environment, benchmark_description)
    if environment.hub_token is not None:
        os.environ["HF_TOKEN"] = environment.hub_token
    submission = submission_of(JobKind.CAMPAIGN, draft)
    base_model = str(draft.body["base_model"])
    send(replace(submission, hub_model=base_model), follow, dry_run, as_json)


def _loops(other_limits: bool) -> int:
    """The attempts of a campaign that names none: where other limits are given, they end it."""
    from temper.submission.campaign_batch import MOST_LOOPS

    return MOST_LOOPS if other_limits else DEFAULT_LOOPS


def _complete(draft: Draft, environment: CampaignEnvironment, description: str | None) -> None:
    """Add what the environment says, and what follows from the options."""
    from services.contracts.campaigns.campaigns import CreateCampaign
    from temper.formats.campaign_environment import judge_of
    from temper.formats.campaign_tasks import read_cards
    from temper.submission.campaign_batch import ANSWER_TOKENS, script_llms

    _below(draft.body, environment.body)
    draft.default("benchmark", environment.benchmark)
    benchmark = draft.get("benchmark")
    if description is None and benchmark == environment.benchmark:
        description = environment.benchmark_description
    _name_target(draft, environment, description)
    llm = draft.get("llm") or {}
    if "base_url" not in llm or "model" not in llm:
        raise InvalidOption(
            "--llm-url and --llm-model are missing, and so are OPENAI_API_BASE or CHAT_MODEL in "
            "--env-file"
        )
    scripts = draft.get("script_llms") or {}
    for each in (*scripts.get("strong", ()), *scripts.get("weak", ())):
        _below(each, {"base_url": llm["base_url"]})
    for each in draft.get("llm_by_role") or {}:
        shared = {name: llm[name] for name in ("base_url", "strip_reasoning") if name in llm}
        _below(draft.body["llm_by_role"][each], shared)
    draft.default("script_llms", script_llms(environment, llm))
    if isinstance(benchmark, str):
        draft.default("judge", judge_of(environment, benchmark))
    try:
        cards = read_cards(environment.cards or os.environ.get(CARDS) or "")
    except ValueError as error:
        raise InvalidOption(f"{CARDS}: {error}") from error
    draft.default("devices", cards or None)
    if environment.shown:
        draft.default("sampling.max_tokens", ANSWER_TOKENS)
    draft.default("datasets", _datasets(environment) or None)
    if draft.get("file") is None:
        # What is wrong is said before rows are fetched.
        replace(draft, body={**draft.body, "file": "file-later"}).request(CreateCampaign)
        draft.default("file", _rows(benchmark, environment))


def _below(above: dict[str, Any], values: dict[str, Any]) -> None:
    """Add values that are not there, field by field."""
    for name, value in values.items():
        if isinstance(value, dict) and isinstance(above.get(name), dict):
            _below(above[name], value)
        else:
            above.setdefault(name, value)


def _name_target(draft: Draft, environment: CampaignEnvironment, description: str | None) -> None:
    """Make the scenario of the published options; one of a job file is left as it is."""
    from services.contracts.evaluation.named_benchmarks import BENCHMARKS
    from temper.formats.campaign_environment import THINKING
    from temper.submission.campaign_batch import describe_target

    scenario, benchmark = draft.get("scenario"), draft.get("benchmark")
    if scenario is not None and draft.option_of(["scenario"]) != SCENARIO:
        return
    scenario = scenario or environment.scenario
    if benchmark is None and description is not None:
        raise InvalidOption("--benchmark-description needs --benchmark")
    if benchmark is None and scenario is None:
        raise InvalidOption("--scenario or --benchmark is missing")
    if isinstance(benchmark, str):
        if benchmark not in BENCHMARKS:
            known = ", ".join(sorted(BENCHMARKS))
            raise InvalidOption(f"--benchmark: no benchmark {benchmark!r}; there are {known}")
        scenario = describe_target(scenario, benchmark, description)
    draft.body["scenario"] = f"{scenario}\n\n{THINKING}" if environment.thinks else scenario


def _datasets(environment: CampaignEnvironment) -> list[dict[str, str]]:
    from temper.submission.campaign_batch import datasets_of

    return [
        {"name": name, "file": "" if path is None else str(path.absolute())}
        for name, path in datasets_of(environment).items()
    ]


def _rows(benchmark: Any, environment: CampaignEnvironment) -> str:
    """The rows of a benchmark: a local file of the environment, or those on the hub."""
    from services.contracts.training.rows import HUB_DATASET_PREFIX
    from temper.submission.campaign_batch import rows_of

    if not isinstance(benchmark, str):
        raise InvalidOption("--file is missing")
    try:
        rows = rows_of(benchmark, environment.folder)
    except ValueError as error:
        raise InvalidOption(f"--file is missing: {error}") from error
    return rows if rows.startswith(HUB_DATASET_PREFIX) else str(Path(rows).absolute())
