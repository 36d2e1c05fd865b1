"""Teaching a tiny model to use a tool: supervised cold start, then RL."""
