"""File formats of other tools that the command line reads and writes."""
