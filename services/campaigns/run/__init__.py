"""One claim of a campaign: its recorded steps and effects, its budget, and its interrupts."""
