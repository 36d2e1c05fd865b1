"""Chemistry graders; RDKit runs in a child process with the runtime ``grading``."""
