"""File formats of other projects that the command line reads."""
