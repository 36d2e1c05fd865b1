"""Whether tools can be used as they are declared, before a job is made of them."""

from collections.abc import Collection, Sequence

from services.contracts.multi_turn import Tool
from services.contracts.origins import GATEWAY_ORIGINS
from services.core.user_functions.pool import check_callable
from services.rollouts.tools.configuration import CallableConfig
from services.rollouts.tools.declaration import declarations
from services.rollouts.tools.targets import check_target


def check_tools(
    tools: Sequence[Tool],
    allowed_origins: Collection[str],
    allowed_callables: Collection[str],
    *,
    gateway_origins: Collection[str] = GATEWAY_ORIGINS,
    param: str = "tools",
) -> None:
    """Raise `InvalidRequest` for a tool that could never be called, and `PermissionDenied` for one
    that the operator's settings do not allow; its ``param`` is like
    ``tools[1].config.sandbox_fusion_url``.

    Nothing is contacted or imported. ``gateway_origins`` with /run_code or /retrieve stand for
    the operator's own sandbox and retrieval service, and need no permission.
    """
    for declaration in declarations(tools, param):
        check_target(declaration, allowed_origins, gateway_origins)
        if isinstance(declaration.config, CallableConfig):
            where = f"{declaration.param}.config.callable"
            check_callable(declaration.config.callable, allowed_callables, where)
