"""Labels on the command line: ``--metadata key=value``, as often as needed."""

from typing import Annotated

import typer

MetadataOption = Annotated[
    list[str] | None,
    typer.Option("--metadata", "-m", metavar="KEY=VALUE", help="A label; may be repeated."),
]


def parse_metadata(given: list[str] | None) -> dict[str, str]:
    """Return the labels by key."""
    labels = {}
    for pair in given or []:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--metadata")
        labels[key] = value
    return labels
