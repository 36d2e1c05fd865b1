"""/run_code and its variants: streamed output, and many inputs."""
