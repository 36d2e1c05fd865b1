"""A file of trajectories with an index, for paging without reading them."""
