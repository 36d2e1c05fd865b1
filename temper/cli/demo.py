"""``temper demo``: end-to-end examples on tasks small enough for two CPU cores."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from temper.cli.exit_codes import ExitCode
from temper.cli.output import Output
from temper.cli.units import duration
from temper.stack.signals import STOP_SIGNALS

if TYPE_CHECKING:
    from temper.demo.tool_use.tasks import ToolTask
    from temper.settings import ClientSettings

app = typer.Typer(
    help="Teach a tiny model a task, from data to a table of results.",
    epilog="KEEP=1 keeps the local stack running afterwards. Results of earlier runs are reused.",
)

ToolSteps = Annotated[int | None, typer.Option(min=1, help="Updates of the policy.  [80]")]
PpoSteps = Annotated[int | None, typer.Option(min=1, help="Updates of the policy.  [10]")]
Gamed = Annotated[
    bool,
    typer.Option("--gamed", help="Make the reward easy to game, and show what its audit finds."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of model, data and training.")]


@app.command()
def addition() -> int:
    """Supervised fine-tuning: two-digit addition, worked digit by digit."""
    from temper.demo.addition.run import run as run_addition

    return _run_demo(run_addition)


@app.command()
def retool(steps: ToolSteps = None, seed: Seed = 0) -> int:
    """Cold start and RL with live /run_code calls: arithmetic with a tool."""
    from temper.demo.tool_use.tasks import Arithmetic

    return _tool_use(Arithmetic(), steps, seed)


@app.command()
def search(steps: ToolSteps = None, seed: Seed = 0) -> int:
    """Cold start and RL with live /retrieve calls: facts from an index."""
    from temper.demo.tool_use.tasks import Facts

    return _tool_use(Facts(), steps, seed)


@app.command()
def rlhf(steps: PpoSteps = None, seed: Seed = 0, gamed: Gamed = False) -> int:
    """Fine-tune, reward model and PPO against it: replies that a rater prefers."""
    from temper.demo.rlhf.run import run as run_rlhf
    from temper.demo.rlhf.steps import PPO_STEPS

    updates = steps or PPO_STEPS
    return _run_demo(lambda settings, out: run_rlhf(settings, out, updates, seed, gamed=gamed))


@app.command()
def evaluate() -> int:
    """A tiny model and its base on a generated benchmark: comparison, reports and a table."""
    from temper.demo.evaluation.run import run as run_evaluation

    return _run_demo(run_evaluation)


@app.command()
def campaign(
    llm_url: Annotated[
        str | None,
        typer.Option(
            help="OpenAI-compatible endpoint, up to and including /v1; default: a script."
        ),
    ] = None,
    llm_model: Annotated[str | None, typer.Option(help="Its model.")] = None,
) -> int:
    """A campaign of three loops: a script or an LLM proposes data, measured scores decide."""
    from services.contracts.campaign_llms import CampaignLlm
    from temper.demo.campaign.run import run as run_campaign

    if (llm_url is None) != (llm_model is None):
        raise typer.BadParameter("--llm-url and --llm-model go together")
    llm = None
    if llm_url is not None:
        try:
            llm = CampaignLlm.model_validate(
                {"base_url": llm_url, "model": llm_model, "strip_reasoning": True}
            )
        except ValidationError as error:
            message = error.errors(include_url=False)[0]["msg"]
            raise typer.BadParameter(message, param_hint="--llm-url") from error
    return _run_demo(lambda settings, out: run_campaign(settings, out, llm))


def _tool_use(task: ToolTask, steps: int | None, seed: int) -> int:
    from temper.demo.tool_use.run import run as run_tool_use
    from temper.demo.tool_use.steps import REINFORCEMENT_STEPS

    updates = steps or REINFORCEMENT_STEPS
    return _run_demo(lambda settings, out: run_tool_use(task, settings, out, updates, seed))


def _run_demo(run: Callable[[ClientSettings, Output], bool]) -> int:
    from temper.settings import load_settings

    for number in STOP_SIGNALS:
        signal.signal(number, signal.default_int_handler)
    out = Output(as_json=False)
    begun = time.monotonic()
    try:
        has_learned = run(load_settings(), out)
    except KeyboardInterrupt:
        out.note("interrupted")
        return ExitCode.INTERRUPTED
    out.note(f"done in {duration(time.monotonic() - begun)}")
    return ExitCode.OK if has_learned else ExitCode.FAILED
