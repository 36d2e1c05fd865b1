"""The dialects that agents speak to a model: OpenAI's two and Anthropic's."""

from services.rollouts.agents.dialects.chat_completions import CHAT_COMPLETIONS
from services.rollouts.agents.dialects.messages import MESSAGES
from services.rollouts.agents.dialects.responses import RESPONSES

__all__ = ["DIALECTS"]

DIALECTS = (CHAT_COMPLETIONS, RESPONSES, MESSAGES)
