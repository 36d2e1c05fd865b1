"""What keeps a program of the sandbox apart from everything else, and how much of it holds here."""
