"""``temper demo``: the demonstrations of the repository's examples/."""

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from temper.client.errors import ClientError

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

app = typer.Typer(
    help="Teach a tiny model a task, from data to a table of results.",
    epilog="KEEP=1 keeps the local stack running afterwards. Results of earlier runs are reused.",
)

Steps = Annotated[int | None, typer.Option(min=1, help="Updates of the policy.  [80]")]
PpoSteps = Annotated[int | None, typer.Option(min=1, help="Updates of the policy.  [10]")]
RealSteps = Annotated[int | None, typer.Option(min=1, help="Updates of the policy.  [10]")]
Gamed = Annotated[
    bool,
    typer.Option("--gamed", help="Make the reward easy to game, and show what its audit finds."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of model, data and training.")]


class ExamplesMissing(ClientError):
    """The demonstrations are not part of an installed package."""

    code = "examples_missing"


@app.command()
def addition() -> None:
    """Supervised fine-tuning: two-digit addition, worked digit by digit."""
    _run("demo_1_addition")


@app.command()
def evaluate() -> None:
    """A tiny model and its base on a generated benchmark: comparison, reports and a table."""
    _run("demo_2_evaluation")


@app.command()
def retool(steps: Steps = None, seed: Seed = 0) -> None:
    """Cold start and RL with live /run_code calls: arithmetic with a tool."""
    _run("demo_3_tool_use", "retool", *_steps(steps), f"--seed={seed}")


@app.command()
def search(steps: Steps = None, seed: Seed = 0) -> None:
    """Cold start and RL with live /retrieve calls: facts from an index."""
    _run("demo_3_tool_use", "search", *_steps(steps), f"--seed={seed}")


@app.command()
def rlhf(steps: PpoSteps = None, seed: Seed = 0, gamed: Gamed = False) -> None:
    """Fine-tune, reward model and PPO against it: replies that a rater prefers."""
    _run("demo_4_rlhf", *_steps(steps), f"--seed={seed}", *(["--gamed"] if gamed else []))


@app.command()
def campaign(
    llm_url: Annotated[
        str | None,
        typer.Option(
            help="OpenAI-compatible endpoint, up to and including /v1; default: a script."
        ),
    ] = None,
    llm_model: Annotated[str | None, typer.Option(help="Model at --llm-url.")] = None,
) -> None:
    """A campaign of three loops: a script or an LLM proposes data, measured scores decide."""
    given = {"--llm-url": llm_url, "--llm-model": llm_model}
    _run("demo_5_campaign", *(f"{name}={value}" for name, value in given.items() if value))


@app.command()
def real(steps: RealSteps = None, seed: Seed = 0) -> None:
    """A published model of 135 million weights: fine-tune and RL on calls of a calculator."""
    _run("demo_6_real", *_steps(steps), f"--seed={seed}")


def _steps(steps: int | None) -> list[str]:
    return [] if steps is None else [f"--steps={steps}"]


def _run(example: str, *arguments: str) -> NoReturn:
    """Replace this process, so that signals reach the demonstration."""
    if not (EXAMPLES / example).is_dir():
        raise ExamplesMissing("the demonstrations are in examples/ of Temper's repository")
    path = os.pathsep.join(filter(None, (str(EXAMPLES.parent), os.environ.get("PYTHONPATH"))))
    line = [sys.executable, "-P", "-m", f"examples.{example}", *arguments]
    os.execve(line[0], line, {**os.environ, "PYTHONPATH": path})  # noqa: S606 - replaces this process
