"""What can be wrong with a file that describes a job."""

from temper.client.errors import ClientError


class SubmissionError(ClientError):
    """The file does not describe a job that can be submitted; nothing was."""

    code = "invalid_job_file"
