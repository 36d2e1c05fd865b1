"""Commands for jobs of every kind, and for what some kinds show."""
