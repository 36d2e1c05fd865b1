"""Reports: one model of their sections, tables and plots, and a writer for each format."""
