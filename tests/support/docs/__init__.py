"""What the documentation says: its blocks of code, and the files of its walks."""
