"""Origins (scheme, host and port): what operators allow or have keys for."""

from typing import Annotated

from pydantic import AfterValidator, AnyHttpUrl


def origin_of(url: AnyHttpUrl) -> str:
    """The origin of a URL, always with its port, so that equal origins compare equal."""
    return f"{url.scheme}://{url.host}:{url.port}"


def _parse(text: str) -> str:
    url = AnyHttpUrl(text)
    if url.path not in (None, "/") or url.username or url.password or url.query or url.fragment:
        raise ValueError("an origin is a scheme, a host and optionally a port")
    return origin_of(url)


Origin = Annotated[str, AfterValidator(_parse)]
"""An origin, with or without its port."""


GATEWAY_ORIGINS = ("http://localhost:8080", "http://127.0.0.1:8080")
"""Where published tool files expect /run_code and /retrieve: the gateway's default addresses."""


def _parse_page(text: str) -> str:
    url = AnyHttpUrl(_parse(text))
    return f"{url.scheme}://{url.host}" if url.port == _PORTS[url.scheme] else origin_of(url)


_PORTS = {"http": 80, "https": 443}

PageOrigin = Annotated[str, AfterValidator(_parse_page)]
"""The origin of pages as browsers send it: without the port that their scheme implies."""
