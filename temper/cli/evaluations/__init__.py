"""Commands for evaluations, and for the metrics of files."""
