"""The worker of campaigns: loops in which an LLM proposes fine-tunes and measurements decide."""
