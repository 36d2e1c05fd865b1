"""Which address a tool's URL means, and what it is shown there."""

from collections.abc import Collection
from dataclasses import dataclass, field

from pydantic import AnyHttpUrl

from services.contracts.errors import InvalidRequest, PermissionDenied
from services.contracts.origins import origin_of
from services.rollouts.tools.configuration import HttpConfig, SandboxConfig, SearchConfig
from services.rollouts.tools.declaration import Declaration
from services.rollouts.tools.environment import ToolEnvironment

RUN_CODE = "/run_code"
RETRIEVE = "/retrieve"


@dataclass(frozen=True)
class Target:
    """An address, and the key that is shown there. ``own`` is a service of the operator's."""

    url: str
    api_key: str | None = field(repr=False)
    own: bool = False


def sandbox_target(config: SandboxConfig, environment: ToolEnvironment) -> Target:
    """Where code is run."""
    url = config.sandbox_fusion_url
    if url is None or _is_own(url, RUN_CODE, environment.gateway_origins):
        return Target(environment.sandbox_url + RUN_CODE, environment.sandbox_api_key, own=True)
    return plain_target(url, environment)


def search_target(config: SearchConfig, environment: ToolEnvironment) -> Target:
    """Where passages are searched."""
    url = config.retrieval_service_url
    if url is None or _is_own(url, RETRIEVE, environment.gateway_origins):
        return Target(environment.retrieval_url + RETRIEVE, environment.retrieval_api_key, own=True)
    return plain_target(url, environment)


def plain_target(url: AnyHttpUrl, environment: ToolEnvironment) -> Target:
    """An address as it is written, with the operator's key for its origin."""
    return Target(str(url), environment.endpoint_keys.get(origin_of(url)))


def check_target(
    declaration: Declaration, allowed_origins: Collection[str], gateway_origins: Collection[str]
) -> None:
    """Raise `InvalidRequest` or `PermissionDenied` for a URL that is not to be asked."""
    found = _url(declaration)
    if found is None:
        return
    name, url, own_path = found
    param = f"{declaration.param}.config.{name}"
    if url.username or url.password or url.fragment:
        raise InvalidRequest("must be a plain URL: its key is set by the operator", param=param)
    if own_path is not None and _is_own(url, own_path, gateway_origins):
        return
    if origin_of(url) not in allowed_origins:
        raise PermissionDenied(
            f"{origin_of(url)} is not among the operator's TEMPER_ALLOWED_ENDPOINTS", param=param
        )


def _url(declaration: Declaration) -> tuple[str, AnyHttpUrl, str | None] | None:
    """The field with a tool's URL, the URL, and the path that it would have on the gateway."""
    config = declaration.config
    if isinstance(config, SandboxConfig) and config.sandbox_fusion_url is not None:
        return "sandbox_fusion_url", config.sandbox_fusion_url, RUN_CODE
    if isinstance(config, SearchConfig) and config.retrieval_service_url is not None:
        return "retrieval_service_url", config.retrieval_service_url, RETRIEVE
    if isinstance(config, HttpConfig):
        return "url", config.url, None
    return None


def _is_own(url: AnyHttpUrl, path: str, gateway_origins: Collection[str]) -> bool:
    return url.path == path and not url.query and origin_of(url) in gateway_origins
