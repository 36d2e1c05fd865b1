"""The recording that ``temper open --demo`` shows."""
