"""The tools that models call: their declaration, checks and execution."""

from services.rollouts.tools.base import Toolbox, ToolReply
from services.rollouts.tools.declaration import read_tool_file
from services.rollouts.tools.endpoints import check_tools
from services.rollouts.tools.toolbox import open_toolbox

__all__ = [
    "ToolReply",
    "Toolbox",
    "check_tools",
    "open_toolbox",
    "read_tool_file",
]
