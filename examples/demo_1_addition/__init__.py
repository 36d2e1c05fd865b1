"""Teaching a tiny model two-digit addition by a supervised fine-tune."""
