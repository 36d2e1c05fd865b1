"""Uploading to a repository of the hub that HF_ENDPOINT names."""

from collections.abc import Callable, Sequence

from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

from services.contracts.models.jobs import HUB
from services.trainer.errors import TrainingFailure
from services.trainer.exporting.package import ExportedFile


class Hub:
    """An export as one commit to a repository; a new repository is private. Large files are
    uploaded before the commit, and the hub keeps them, so that a resumed upload sends only the
    rest.
    """

    def __init__(self, destination: str, token: str | None) -> None:
        self._repository = destination.removeprefix(f"{HUB}://")
        self._hub = HfApi(token=token)

    def send(self, files: Sequence[ExportedFile], message: str, sent: Callable[[int], None]) -> str:
        """Upload the files; return the commit. ``sent`` is called with each file's bytes. Raises
        TrainingFailure before any upload if the token is missing or rejected.
        """
        self._claim()
        operations = []
        for file in files:
            operation = CommitOperationAdd(file.name, str(file.path))
            self._hub.preupload_lfs_files(self._repository, [operation])
            operations.append(operation)
            sent(file.size)
        commit = self._hub.create_commit(self._repository, operations, commit_message=message)
        return str(commit.oid)

    def _claim(self) -> None:
        """Check that the token may write, by creating the repository if it does not exist."""
        try:
            self._hub.whoami()
            self._hub.create_repo(self._repository, private=True, exist_ok=True)
            self._hub.auth_check(self._repository, write=True)
        except LocalTokenNotFoundError as error:
            raise _refused("neither TEMPER_EXPORT_HUB_TOKEN nor HF_TOKEN is set") from error
        except HfHubHTTPError as error:
            reason = _REASONS.get(error.response.status_code)
            if reason is None:
                raise
            raise _refused(f"{self._repository}: {reason}") from error


_REASONS = {
    401: "the hub does not know the token of TEMPER_EXPORT_HUB_TOKEN",
    403: "the token of TEMPER_EXPORT_HUB_TOKEN may not write there",
}


def _refused(reason: str) -> TrainingFailure:
    return TrainingFailure(reason, code="destination_refused", param="destination")
