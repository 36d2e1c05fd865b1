"""From a file that describes a job to a job at the gateway."""
