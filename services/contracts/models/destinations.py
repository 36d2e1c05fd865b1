"""Where models are exported to: URLs of folders, stores and hub repositories."""

import re
from collections.abc import Collection
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

HUB = "hf"
FOLDER = "file"

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<place>.+)", re.DOTALL)
_REPOSITORY_SLASHES = 3
_PART = re.compile(r"[A-Za-z0-9._=+@-]+")


def _normalized(text: str) -> str:
    """The URL in canonical form for comparison; an absolute path is a URL of ``file``."""
    url = f"{FOLDER}://{text}" if text.startswith("/") else text
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError("must be an absolute path, or a URL such as hf://owner/name")
    scheme, place = found["scheme"], found["place"].rstrip("/")
    if scheme == FOLDER and not place.startswith("/"):
        raise ValueError("must name an absolute path: file:///folder")
    parts = place.removeprefix("/").split("/") if scheme == FOLDER else place.split("/")
    if not all(_PART.fullmatch(part) and part.strip(".") for part in parts):
        raise ValueError(
            "may consist of names of letters, digits and . _ = + @ - only, separated by '/'"
        )
    return f"{scheme}://{place}"


def _one_place(text: str) -> str:
    url = _normalized(text)
    if scheme_of(url) == HUB and url.count("/") != _REPOSITORY_SLASHES:
        raise ValueError("must name one repository: hf://owner/name")
    return url


_Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


AllowedPlace = Annotated[_Text, AfterValidator(_normalized)]
"""An allowed prefix: ``/folder``, ``hf://owner``, ``s3://bucket``, and everything below it."""

Destination = Annotated[_Text, AfterValidator(_one_place)]
"""``/folder``, ``hf://owner/name``, or another URL of fsspec's such as ``s3://bucket/name``.

It holds no credentials, no options, and no way up.
"""


def scheme_of(destination: str) -> str:
    """The scheme of a URL."""
    return destination.partition("://")[0]


def is_allowed(destination: str, allowed: Collection[str]) -> bool:
    """Whether a destination is an allowed URL or is below one."""
    return any(destination == each or destination.startswith(f"{each}/") for each in allowed)
