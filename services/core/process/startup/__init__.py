"""A folder on the search path of children, for what every Python process of a job runs first."""
