"""The pool: warm processes of which every program gets a fresh fork."""
