"""What kinds of tools there are, and what published files call them."""

from enum import StrEnum

from services.contracts.errors import InvalidRequest


class ToolKind(StrEnum):
    """What a tool does with its arguments; the values are our own class names."""

    SANDBOX = "sandbox"  # runs its code
    RETOOL = "retool"  # the same, with the value of the last expression shown
    SEARCH = "search"  # searches passages
    HTTP = "http"  # posts them to a URL
    CALLABLE = "callable"  # gives them to a Python function


PUBLISHED = {
    "sandbox_fusion_tool.SandboxFusionTool": ToolKind.SANDBOX,
    "sandbox_fusion_tools.SandboxFusionTool": ToolKind.SANDBOX,
    "retool.ReTool": ToolKind.RETOOL,
    "retool.CustomSandboxFusionTool": ToolKind.RETOOL,  # verl's recipe
    "search_tool.SearchTool": ToolKind.SEARCH,
}
"""By the last module and the class of a dotted class name, whatever package it is in."""


def kind_of(class_name: str, param: str) -> ToolKind:
    """The kind that a class name means; raises `InvalidRequest` for an unknown one."""
    try:
        return ToolKind(class_name)
    except ValueError:
        pass
    kind = PUBLISHED.get(".".join(class_name.split(".")[-2:]))
    if kind is None:
        known = ", ".join([*ToolKind, *PUBLISHED])
        raise InvalidRequest(f"{class_name!r} is no known tool; known are {known}", param=param)
    return kind
