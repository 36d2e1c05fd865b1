"""``temper traj``: a job's trajectories, with turns, tool calls and rewards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.contracts.rollouts.rollouts import TrajectoryOrder
from services.contracts.rollouts.training_rows import RowLayout
from services.contracts.rollouts.trajectories import FinishReason
from temper.cli.gateway import connect
from temper.cli.jobs.jobs import JobId
from temper.cli.jobs.trajectory_text import render
from temper.cli.output import JsonOption, Output, transfer_bar
from temper.cli.units import duration, number
from temper.client.errors import ClientError

if TYPE_CHECKING:
    from rich.text import Text

    from services.contracts.rollouts.rollouts import TrajectorySummary
    from services.contracts.rollouts.tokens import TrajectoryToken
    from temper.client import Temper
    from temper.client.trajectories import TrajectoryFilter

TrajectoryId = Annotated[
    str | None, typer.Argument(metavar="[TRAJECTORY]", help="Show this trajectory in full.")
]
Best = Annotated[
    int | None, typer.Option(min=1, max=1000, help="Show the N best in full, best first.")
]
Worst = Annotated[
    int | None, typer.Option(min=1, max=1000, help="Show the N worst in full, worst first.")
]
Save = Annotated[
    Path | None,
    typer.Option(metavar="FILE", dir_okay=False, help="Save all trajectories as Parquet."),
]
Rows = Annotated[
    RowLayout | None,
    typer.Option(
        metavar="LAYOUT",
        help="Make a training file of them on the gateway: supervised, preference or "
        "reinforcement rows, each with its origin; of the earliest, up to -n.",
    ),
]
Masks = Annotated[
    bool,
    typer.Option("--masks", help="Mark sampled lines (1) and inserted ones (0)."),
]
Tokens = Annotated[bool, typer.Option("--tokens", help="List the tokens of TRAJECTORY.")]
Sort = Annotated[TrajectoryOrder, typer.Option(help="Sort key, largest first.")]
Ascending = Annotated[bool, typer.Option("--asc", help="Smallest first.")]
LowestReward = Annotated[float | None, typer.Option(help="Lowest reward, inclusive.")]
HighestReward = Annotated[float | None, typer.Option(help="Highest reward, inclusive.")]
Shortest = Annotated[
    int | None, typer.Option(min=0, help="Fewest tokens of a response, inclusive.")
]
Longest = Annotated[int | None, typer.Option(min=0, help="Most tokens of a response, inclusive.")]
Errors = Annotated[bool | None, typer.Option(help="Only trajectories with, or without, errors.")]
Finish = Annotated[
    FinishReason | None, typer.Option(help="Only trajectories with this finish reason.")
]
Prompt = Annotated[
    int | None, typer.Option(min=0, help="Only trajectories of this prompt row, counted from 0.")
]
Step = Annotated[
    int | None, typer.Option(min=1, help="Only trajectories that this step learned from.")
]
Containing = Annotated[
    str | None, typer.Option("--text", help="Only trajectories that contain this text.")
]
Most = Annotated[int, typer.Option("-n", min=1, max=10_000, help="Maximum number to list.")]


class NoTrajectories(ClientError):
    """Jobs of this kind have no trajectories."""

    code = "no_trajectories"


def traj(
    job_id: JobId,
    trajectory_id: TrajectoryId = None,
    best: Best = None,
    worst: Worst = None,
    save: Save = None,
    rows: Rows = None,
    masks: Masks = False,
    tokens: Tokens = False,
    sort: Sort = TrajectoryOrder.FINISHED,
    ascending: Ascending = False,
    min_reward: LowestReward = None,
    max_reward: HighestReward = None,
    min_length: Shortest = None,
    max_length: Longest = None,
    errors: Errors = None,
    finish: Finish = None,
    prompt: Prompt = None,
    step: Step = None,
    text: Containing = None,
    most: Most = 20,
    as_json: JsonOption = False,
) -> None:
    """List the trajectories of rollouts, online training or an evaluation with tools, or show some
    in full."""
    from temper.client.trajectories import TrajectoryFilter

    out = Output(as_json)
    where = TrajectoryFilter(
        min_reward=min_reward,
        max_reward=max_reward,
        min_length=min_length,
        max_length=max_length,
        errors=errors,
        finish_reason=finish,
        prompt=prompt,
        step=step,
        text=text,
    )
    if sum(given is not None for given in (trajectory_id, best, worst, save, rows)) > 1:
        raise typer.BadParameter("give one of TRAJECTORY, --best, --worst, --save and --rows")
    if tokens and trajectory_id is None:
        raise typer.BadParameter("--tokens needs TRAJECTORY")
    with connect() as client:
        if save is not None:
            with transfer_bar(out, f"downloading {save.name}") as progress:
                client.rollouts.download(job_id, save, progress)
            return
        printer = TrajectoryPrinter(client, out, job_id, masks=masks)
        if rows is not None:
            printer.rows(rows, where, most)
            return
        if tokens and trajectory_id is not None:
            printer.tokens(trajectory_id)
        elif trajectory_id is not None:
            printer.one(trajectory_id)
        elif best is not None or worst is not None:
            printer.ranked(where, best or worst or 1, ascending=worst is not None)
        else:
            printer.listed(where, sort, ascending=ascending, most=most)


class TrajectoryPrinter:
    """Prints the trajectories of one job."""

    def __init__(self, client: Temper, out: Output, job_id: str, *, masks: bool) -> None:
        from services.contracts.kinds import KINDS

        self._client = client
        self._out = out
        self._job_id = job_id
        self._masks = masks
        self._kind = client.jobs.get(job_id).kind
        if self._kind not in KINDS or not KINDS[self._kind].has_trajectories:
            raise NoTrajectories(f"{job_id} has kind {self._kind}: it has no trajectories")

    def one(self, trajectory_id: str) -> None:
        """Print one trajectory in full."""
        found = self._client.trajectories.get(self._job_id, trajectory_id, self._kind)
        if self._out.as_json:
            self._out.json_line(found)
        else:
            self._out.line(render(found, masks=self._masks).rstrip("\n"))

    def tokens(self, trajectory_id: str) -> None:
        """Print the tokens of one trajectory, a line each."""
        found = self._client.trajectories.tokens(self._job_id, trajectory_id, self._kind)
        if self._out.as_json:
            for token in found:
                self._out.json_line(token)
        else:
            self._out.table(TOKEN_COLUMNS, map(token_row, found))

    def rows(self, layout: RowLayout, where: TrajectoryFilter, most: int) -> None:
        """Make a training file of the trajectories, and print what it holds."""
        from services.contracts.rollouts.training_rows import CreateTrainingRows
        from temper.client.trajectories import EVERY

        if where != replace(
            EVERY, min_reward=where.min_reward, max_reward=where.max_reward, step=where.step
        ):
            raise typer.BadParameter("--rows takes --min-reward, --max-reward, --step and -n only")
        request = CreateTrainingRows(
            layout=layout,
            min_reward=where.min_reward,
            max_reward=where.max_reward,
            step=where.step,
            limit=most,
        )
        made = self._client.trajectories.training_rows(self._job_id, request, self._kind)
        if self._out.as_json:
            self._out.json_line(made)
            return
        self._out.line(f"{made.file.id}  {made.rows:,} rows of {made.trajectories:,} trajectories")
        for each in made.left_out:
            self._out.note(f"left out: {each.count:,}, first {each.first}: {each.reason}")
        if made.has_more:
            self._out.note(f"more trajectories match; -n {most * 2} reads them")

    def ranked(self, where: TrajectoryFilter, most: int, *, ascending: bool) -> None:
        """Print the trajectories with the highest or lowest rewards in full."""
        page = self._client.trajectories.page(
            self._job_id,
            self._kind,
            sort=TrajectoryOrder.REWARD,
            ascending=ascending,
            where=where,
            most=most,
        )
        for position, summary in enumerate(page.data):
            if position and not self._out.as_json:
                self._out.line("")
            self.one(summary.id)

    def listed(
        self, where: TrajectoryFilter, sort: TrajectoryOrder, *, ascending: bool, most: int
    ) -> None:
        """Print one line per trajectory."""
        page = self._client.trajectories.page(
            self._job_id, self._kind, sort=sort, ascending=ascending, where=where, most=most
        )
        if self._out.as_json:
            self._out.document(page)
            return
        if where.prompt is None:
            self._out.table(TRAJECTORY_COLUMNS, map(trajectory_row, page.data))
        else:
            self._out.table(SAMPLE_COLUMNS, map(sample_row, page.data))
        if page.has_more:
            self._out.note(f"more trajectories exist; -n {most * 2} shows them")
        if page.data:
            self._out.note(f"in full:  temper traj {self._job_id} {page.data[0].id}", "dim")


SHOWN_CHARACTERS = 48
TRAJECTORY_COLUMNS = (
    *("ID", "REWARD", "ENDED", "TURNS", "CALLS", "ERRORS", "TOKENS", "TOOK"),
    *("QUESTION", "ANSWER"),
)


def trajectory_row(summary: TrajectorySummary) -> tuple[str | Text, ...]:
    """Return a trajectory's table cells."""
    from rich.text import Text

    return (
        summary.id,
        _reward(summary),
        summary.finish_reason.value,
        str(summary.turns),
        str(summary.tool_calls),
        Text(str(summary.errors), style="red" if summary.errors else ""),
        f"{'about ' if summary.has_estimates else ''}{summary.response_tokens:,}",
        duration(summary.seconds) if summary.seconds >= 1 else f"{summary.seconds * 1000:.0f}ms",
        _one_line(summary.question),
        _one_line(summary.answer, tail=True),
    )


SAMPLE_COLUMNS = (*TRAJECTORY_COLUMNS, "STEP", "ADVANTAGE")


def sample_row(summary: TrajectorySummary) -> tuple[str | Text, ...]:
    """Return a trajectory's table cells, with the step that trained on it and its advantage."""
    step = "" if summary.step is None else str(summary.step)
    return (*trajectory_row(summary), step, _value(summary.advantage))


TOKEN_COLUMNS = (
    *("POSITION", "ID", "TEXT", "ORIGIN", "LOGPROB", "VERSION"),
    *("LEARNER", "ENTROPY", "ADVANTAGE"),
)


def token_row(token: TrajectoryToken) -> tuple[str, ...]:
    """Return a token's table cells; its text is quoted to show whitespace."""
    return (
        str(token.position),
        str(token.id),
        "" if token.text is None else json.dumps(token.text),
        token.origin.value,
        _value(token.log_prob),
        "" if token.policy_version is None else str(token.policy_version),
        _value(token.learner_log_prob),
        _value(token.entropy),
        _value(token.advantage),
    )


def _value(value: float | None) -> str:
    return "" if value is None else number(value)


def _reward(summary: TrajectorySummary) -> str | Text:
    from rich.text import Text

    if summary.reward is not None:
        return number(summary.reward)
    return Text("failed", style="red") if summary.reward_error else ""


def _one_line(text: str, *, tail: bool = False) -> str:
    """The head or tail of a text on one line, without control characters."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(words) <= SHOWN_CHARACTERS:
        return words
    kept = SHOWN_CHARACTERS - 1
    return f"…{words[-kept:]}" if tail else f"{words[:kept]}…"
