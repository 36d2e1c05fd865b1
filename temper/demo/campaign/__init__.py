"""A campaign that looks for data which teach a tiny model two-digit addition."""
