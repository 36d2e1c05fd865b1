"""Commands for the local stack, its keys and its demos."""
