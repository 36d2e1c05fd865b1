"""OpenAI's graders."""
