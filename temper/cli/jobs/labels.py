"""Labels of a job that is started, and by which jobs are listed."""

from typing import Annotated

import typer

MetadataOption = Annotated[
    list[str] | None,
    typer.Option("--metadata", "-m", metavar="KEY=VALUE", help="Label of the job; repeatable."),
]


def parse_metadata(given: list[str] | None) -> dict[str, str]:
    """Parse ``KEY=VALUE`` pairs into labels by key."""
    labels = {}
    for pair in given or []:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--metadata")
        labels[key] = value
    return labels
