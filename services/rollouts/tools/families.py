"""Tools that other packages add, by entry points of the group ``temper.tools``.

The name of the entry point is the ``class_name`` with which a request declares the tool.
"""

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.core.extensions import blamed_on, extension_names, find_extension, make_family
from services.core.operator_environment import OperatorEnvironment
from services.rollouts.tools.base import ToolBackend
from services.rollouts.tools.configuration import PUBLISHED, ToolConfig, ToolKind

GROUP = "temper.tools"

ConfigT = TypeVar("ConfigT", bound=ToolConfig)


class ToolFamily(ABC, Generic[ConfigT]):
    """Tools of one class; made without arguments."""

    config: type[ConfigT]
    """The model of their ``config``."""
    schema: JsonObject | None = None
    """Shown to the model where a request declares none: {type: function, function: {...}}."""

    @abstractmethod
    def open(
        self, config: ConfigT, environment: OperatorEnvironment
    ) -> AbstractAsyncContextManager[ToolBackend]:
        """Return a tool, whose connections and processes live as long as the block.

        Contacts nothing. The toolbox bounds the calls in flight and repeats idempotent ones.
        """


def find_family(class_name: str, param: str) -> ToolFamily[Any]:
    """Import a family; raises `InvalidRequest`, naming the field ``param``, if there is none."""
    if find_extension(GROUP, class_name) is None:
        known = ", ".join([*ToolKind, *PUBLISHED, *extension_names(GROUP)])
        raise InvalidRequest(
            f"{class_name!r} is not a known tool; known are {known}",
            param=param,
            code="extension_not_found",
        )
    family: ToolFamily[Any] = make_family(GROUP, class_name, param, ToolFamily, "a family of tools")
    with blamed_on(class_name, param):
        if not issubclass(family.config, ToolConfig):
            raise TypeError(f"its config is {family.config.__name__}, not a ToolConfig")
    return family
