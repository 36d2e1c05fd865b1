"""A folder on any store that fsspec supports: local, S3, Azure Blob and others."""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import fsspec

from services.contracts.base import JsonObject
from temper.submission.submission import SubmissionError

MANIFEST = "temper_sync.json"
"""Digests of the files by path, to skip unchanged files."""
MAX_FILES = 200_000

Digests = dict[str, str]

_PACKAGES = {"s3": "s3fs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs", "gs": "gcsfs"}


class LogStore:
    """Files below one URL. Failures of the store are raised as `SubmissionError` with its URL."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = url
        if "://" not in url and not url.startswith("/"):
            raise SubmissionError(f"{url!r} is neither an absolute path nor a URL of a store")
        try:
            # Listings must include files that were just written.
            common: JsonObject = {"use_listings_cache": False, **options}
            self._system, root = fsspec.core.url_to_fs(url, **common)
        except ImportError as error:
            package = _PACKAGES.get(scheme_of(url))
            hint = f"; install {package} in temper's environment" if package else ""
            raise SubmissionError(f"{url}: {error}{hint}") from error
        except Exception as error:  # every store has its own exceptions
            raise self._failed("cannot be opened", error) from error
        self._root = str(root).rstrip("/")

    def check(self) -> None:
        """Verify that the store is reachable with these credentials."""
        try:
            self._system.exists(f"{self._root}/{MANIFEST}")
            self._system.find(self._root, maxdepth=1)
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._failed("cannot be read", error) from error

    def files(self) -> dict[str, int]:
        """Return the sizes of all files by path, except the manifest.

        Raises `SubmissionError` for a path outside the folder.
        """
        try:
            found = self._system.find(self._root, detail=True)
        except FileNotFoundError:
            return {}
        except Exception as error:
            raise self._failed("cannot be listed", error) from error
        if len(found) > MAX_FILES:
            raise SubmissionError(f"{self.url}: holds more than {MAX_FILES:,} files")
        sizes = {}
        for path, about in found.items():
            name = str(path).removeprefix(self._root).lstrip("/")
            parts = PurePosixPath(name).parts
            if not parts or ".." in parts or "\\" in name:
                raise SubmissionError(f"{self.url}: {name!r} is not a path below it")
            if about.get("type") == "file" and name != MANIFEST and not name.endswith(".partial"):
                sizes[name] = int(about["size"])
        return sizes

    def digests(self) -> Digests:
        """Return the digests in the manifest; empty if there is none."""
        try:
            content = json.loads(self._system.cat_file(f"{self._root}/{MANIFEST}"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise SubmissionError(f"{self.url}/{MANIFEST}: is not JSON: {error}") from error
        except Exception as error:
            raise self._failed("cannot be read", error) from error
        if not isinstance(content, dict):
            raise SubmissionError(f"{self.url}/{MANIFEST}: is not a JSON object")
        return {str(name): str(digest) for name, digest in content.items()}

    def write_digests(self, digests: Digests) -> None:
        """Replace the manifest."""
        self.write(MANIFEST, json.dumps(digests, indent=1, sort_keys=True).encode())

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically."""
        path = f"{self._root}/{name}"
        try:
            if scheme_of(self.url) == "file":
                self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
                self._system.pipe_file(f"{path}.partial", content)
                self._system.mv(f"{path}.partial", path)
            else:  # object stores write atomically
                self._system.pipe_file(path, content)
        except Exception as error:
            raise self._failed(f"cannot write {name}", error) from error

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        try:
            return bytes(self._system.cat_file(f"{self._root}/{name}"))
        except Exception as error:
            raise self._failed(f"cannot read {name}", error) from error

    def _failed(self, what: str, error: Exception) -> SubmissionError:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0][:300] if lines else type(error).__name__
        return SubmissionError(f"{self.url} {what}: {type(error).__name__}: {reason}")


def scheme_of(url: str) -> str:
    """Return the URL's scheme; ``file`` for a path."""
    return url.partition("://")[0] if "://" in url else "file"
