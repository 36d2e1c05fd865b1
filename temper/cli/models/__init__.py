"""Commands for models: the registry, their engines, and a chat."""
