"""Teaching a tiny model to use a tool: a cold start on conversations, then reinforcement."""
