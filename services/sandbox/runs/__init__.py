"""Running code for clients: one program, one that streams, one with many inputs."""
