"""``temper notes``: notes about a job and its trajectories."""

from typing import Annotated

import typer

from temper.cli.gateway import connect
from temper.cli.jobs.jobs import JobId
from temper.cli.jobs.trajectory_text import escaped
from temper.cli.output import JsonOption, Output
from temper.cli.units import age

Add = Annotated[str | None, typer.Option("--add", metavar="TEXT", help="Write a note.")]
Remove = Annotated[str | None, typer.Option("--remove", metavar="NOTE", help="Delete a note.")]
About = Annotated[
    str | None,
    typer.Option("--trajectory", "-t", metavar="ID", help="Trajectory that the notes are about."),
]
Most = Annotated[int, typer.Option("-n", min=1, max=1000, help="Maximum number to list.")]


def notes(
    job_id: JobId,
    add: Add = None,
    remove: Remove = None,
    trajectory: About = None,
    most: Most = 100,
    as_json: JsonOption = False,
) -> None:
    """List the notes about a job and its trajectories, write one or delete one."""
    from services.contracts.notes import MAX_NOTE_CHARACTERS

    out = Output(as_json)
    if add is not None and remove is not None:
        raise typer.BadParameter("give one of --add and --remove")
    if add is not None and not 0 < len(add.strip()) <= len(add) <= MAX_NOTE_CHARACTERS:
        raise typer.BadParameter(f"a note has 1 to {MAX_NOTE_CHARACTERS:,} characters")
    with connect() as client:
        if add is not None:
            note = client.notes.write(job_id, add, trajectory)
            if as_json:
                out.document(note)
            else:
                out.note(f"wrote {note.id}")
            return
        if remove is not None:
            client.notes.delete(job_id, remove)
            out.note(f"deleted {remove}")
            return
        page = client.notes.page(job_id, trajectory, most=most)
    if as_json:
        out.document(page)
        return
    for each in page.data:
        about = f" about {each.trajectory_id}" if each.trajectory_id else ""
        out.line(f"{each.id}, {age(each.created_at)}{about}:", "bold")
        for line in each.text.split("\n"):
            out.line(f"    {escaped(line)}")
