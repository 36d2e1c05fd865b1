"""The index beside a file of trajectories: pages of many, without reading them."""
