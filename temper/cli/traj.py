"""``temper traj``: what the model of a job said, called and was rewarded for."""

from pathlib import Path
from typing import Annotated

import typer

from services.contracts.rollouts import TrajectoryOrder
from services.contracts.trajectories import FinishReason
from temper.cli.gateway import connect
from temper.cli.jobs import JobId
from temper.cli.output import JsonOption, Output
from temper.cli.traj_view import TRAJECTORY_COLUMNS, trajectory_row
from temper.cli.transfer import transfer_bar
from temper.client import ClientError, Temper
from temper.client.trajectories import PATHS, TrajectoryFilter
from temper.formats.trajectory_text import render

TrajectoryId = Annotated[
    str | None, typer.Argument(metavar="[TRAJECTORY]", help="Show this one in full.")
]
Best = Annotated[
    int | None, typer.Option(min=1, max=1000, help="Show the best so many in full, best first.")
]
Worst = Annotated[
    int | None, typer.Option(min=1, max=1000, help="Show the worst so many in full, worst first.")
]
Save = Annotated[
    Path | None,
    typer.Option(metavar="FILE", dir_okay=False, help="Save all of a finished job, as Parquet."),
]
Masks = Annotated[
    bool, typer.Option("--masks", help="Mark what the model wrote (1) and what it was given (0).")
]
Sort = Annotated[TrajectoryOrder, typer.Option(help="What to list by, the largest first.")]
Ascending = Annotated[bool, typer.Option("--asc", help="The smallest first.")]
Bound = Annotated[float | None, typer.Option(help="Inclusive.")]
Length = Annotated[int | None, typer.Option(min=0, help="Tokens of the response; inclusive.")]
Errors = Annotated[bool | None, typer.Option(help="Only those with, or without, errors.")]
Finish = Annotated[FinishReason | None, typer.Option(help="Only those that ended so.")]
Prompt = Annotated[int | None, typer.Option(min=0, help="Only those of this row, from 0.")]
Most = Annotated[int, typer.Option("-n", min=1, max=10_000, help="How many at most.")]


class NoTrajectories(ClientError):
    """Jobs of this kind play nothing."""

    code = "no_trajectories"


def traj(
    job_id: JobId,
    trajectory_id: TrajectoryId = None,
    best: Best = None,
    worst: Worst = None,
    save: Save = None,
    masks: Masks = False,
    sort: Sort = TrajectoryOrder.FINISHED,
    ascending: Ascending = False,
    min_reward: Bound = None,
    max_reward: Bound = None,
    min_length: Length = None,
    max_length: Length = None,
    errors: Errors = None,
    finish: Finish = None,
    prompt: Prompt = None,
    most: Most = 20,
    as_json: JsonOption = False,
) -> None:
    """List the trajectories of a rollout job or an online training, or show some in full."""
    out = Output(as_json)
    where = TrajectoryFilter(
        min_reward=min_reward,
        max_reward=max_reward,
        min_length=min_length,
        max_length=max_length,
        errors=errors,
        finish_reason=finish,
        prompt=prompt,
    )
    if sum(given is not None for given in (trajectory_id, best, worst, save)) > 1:
        raise typer.BadParameter("give one of TRAJECTORY, --best, --worst and --save")
    with connect() as client:
        if save is not None:
            with transfer_bar(out, f"downloading {save.name}") as progress:
                client.rollouts.download(job_id, save, progress)
            return
        shown = Shown(client, out, job_id, masks=masks)
        if trajectory_id is not None:
            shown.one(trajectory_id)
        elif best is not None or worst is not None:
            shown.ranked(where, best or worst or 1, ascending=worst is not None)
        else:
            shown.listed(where, sort, ascending=ascending, most=most)


class Shown:
    """The trajectories of one job, as a command prints them."""

    def __init__(self, client: Temper, out: Output, job_id: str, *, masks: bool) -> None:
        self._client = client
        self._out = out
        self._job_id = job_id
        self._masks = masks
        self._kind = client.jobs.get(job_id).kind
        if self._kind not in PATHS:
            raise NoTrajectories(f"{job_id} is a job of kind {self._kind}: it plays nothing")

    def one(self, trajectory_id: str) -> None:
        """Print one in full."""
        found = self._client.trajectories.get(self._job_id, trajectory_id, self._kind)
        if self._out.as_json:
            self._out.json_line(found)
        else:
            self._out.line(render(found, masks=self._masks).rstrip("\n"))

    def ranked(self, where: TrajectoryFilter, most: int, *, ascending: bool) -> None:
        """Print those of the highest or lowest reward in full."""
        page = self._client.trajectories.page(
            self._job_id,
            self._kind,
            sort=TrajectoryOrder.REWARD,
            ascending=ascending,
            where=where,
            most=most,
        )
        for place, summary in enumerate(page.data):
            if place and not self._out.as_json:
                self._out.line("")
            self.one(summary.id)

    def listed(
        self, where: TrajectoryFilter, sort: TrajectoryOrder, *, ascending: bool, most: int
    ) -> None:
        """Print a line for each."""
        page = self._client.trajectories.page(
            self._job_id, self._kind, sort=sort, ascending=ascending, where=where, most=most
        )
        if self._out.as_json:
            self._out.document(page)
            return
        self._out.table(TRAJECTORY_COLUMNS, (trajectory_row(each) for each in page.data))
        if page.has_more:
            self._out.note(f"there are more; -n {most * 2} shows them")
        if page.data:
            self._out.note(f"in full:  temper traj {self._job_id} {page.data[0].id}", "dim")
