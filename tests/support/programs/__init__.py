"""Programs of the sandbox in tests: confinement, pools and clients."""
