"""A campaign that searches for data that teaches a tiny model two-digit addition."""
