"""The way out of a run: a proxy that leads to the destinations an operator lists."""
