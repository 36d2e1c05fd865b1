"""The LLM of a campaign: its prompts, its conversations, and answers kept for reuse."""
