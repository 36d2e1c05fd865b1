"""The tools that models call: declared in tool files, checked, and called."""

from services.common.rollout.tools.check import check_tools
from services.common.rollout.tools.environment import ToolEnvironment
from services.common.rollout.tools.reply import Toolbox, ToolReply
from services.common.rollout.tools.tool_file import read_tool_file
from services.common.rollout.tools.toolbox import open_toolbox

__all__ = [
    "ToolEnvironment",
    "ToolReply",
    "Toolbox",
    "check_tools",
    "open_toolbox",
    "read_tool_file",
]
