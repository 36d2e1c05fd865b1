"""Building indexes and changing what they hold: the work of a process of its own."""
