"""What every worker shares: claim a job, run its child, record what it says."""
