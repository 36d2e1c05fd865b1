"""The tools that the gateway runs for a response."""
