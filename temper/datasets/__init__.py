"""Data sets of this machine and of the hub, as rows of JSON Lines."""
