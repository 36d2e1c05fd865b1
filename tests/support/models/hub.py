"""A hub of models and datasets on the loopback interface, over folders of the test.

Clients find it by HF_ENDPOINT. It speaks the part of the Hugging Face hub's HTTP interface that
loading asks for: repository information, listings of trees and paths, and files with ranges. It
keeps no large files elsewhere, so it never redirects. A `WritableHub` takes uploads as well.
"""

import base64
import hashlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from tests.support.waiting import wait_for

MAIN = "main"
WHEN = "2024-01-01T00:00:00.000Z"


class Kind(StrEnum):
    """What a repository holds, as the paths of the interface name it."""

    MODEL = "models"
    DATASET = "datasets"


@dataclass(frozen=True)
class Repository:
    """A repository: the folder of each branch or tag.

    Files of a gated one are for the tokens in ``readers``; null means that it is not gated.
    """

    kind: Kind
    name: str
    revisions: Mapping[str, Path]
    readers: frozenset[str] | None = None

    def commits(self) -> dict[str, "Commit"]:
        """The commits by every name that leads to them, their own ids included."""
        named = {name: Commit(self.name, folder) for name, folder in self.revisions.items()}
        return named | {commit.id: commit for commit in named.values()}


@dataclass(frozen=True)
class Commit:
    """The files of a repository at one revision."""

    repository: str
    folder: Path

    @property
    def id(self) -> str:
        """Forty hexadecimal digits; clients tell commits from branches by that."""
        return hashlib.sha1(f"{self.repository}:{self.folder}".encode()).hexdigest()

    def files(self) -> list[str]:
        """The paths of all files."""
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(path.relative_to(self.folder).as_posix() for path in found)

    def entry(self, path: str) -> dict[str, Any] | None:
        """How a listing describes a file or folder; None without such a one."""
        place = self.folder / path
        if path in self.files():
            return {
                "type": "file",
                "path": path,
                "size": place.stat().st_size,
                "oid": blob_id(place),
            }
        return {"type": "directory", "path": path, "oid": self.id} if place.is_dir() else None


class Refused(Exception):
    """An error response; ``code`` is the error code that clients read."""

    def __init__(self, status: int, code: str, message: str, commit: Commit | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"X-Error-Code": code, "X-Error-Message": message}
        if commit is not None:
            self.headers["X-Repo-Commit"] = commit.id


class Hub:
    """The repositories; records the tokens of its requests."""

    def __init__(self) -> None:
        self.url = ""
        self.tokens: set[str | None] = set()
        self._repositories: dict[tuple[str, str], Repository] = {}

    def add(self, repository: Repository) -> None:
        """Publish a repository."""
        self._repositories[repository.kind, repository.name] = repository

    def app(self) -> Starlette:
        """The interface as a web application."""
        api = "/api/{kind}/{owner}/{name}"
        files = "/{owner}/{name}/resolve/{place:path}"
        routes = [
            Route(api, self._info),
            Route(f"{api}/revision/{{place:path}}", self._info),
            Route(f"{api}/tree/{{place:path}}", self._tree),
            Route(f"{api}/paths-info/{{place:path}}", self._paths, methods=["POST"]),
            Route(f"/{{kind}}{files}", self._file),
            Route(files, self._file),
        ]
        return Starlette(routes=routes, exception_handlers={Refused: _refusal})

    async def _info(self, request: Request) -> Response:
        repository, commit, _ = self._look_up(request)
        about = {
            "id": repository.name,
            "sha": commit.id,
            "private": False,
            "gated": False if repository.readers is None else "auto",
            "disabled": False,
            "createdAt": WHEN,
            "lastModified": WHEN,
            "downloads": 0,
            "likes": 0,
            "tags": [],
            "siblings": [{"rfilename": path} for path in commit.files()],
        }
        return JSONResponse(about)

    async def _tree(self, request: Request) -> Response:
        _, commit, folder = self._look_up(request)
        root = commit.folder / folder
        if not root.is_dir():
            raise Refused(404, "EntryNotFound", f"{folder} does not exist", commit)
        recursive = request.query_params.get("recursive", "").lower() == "true"
        found = sorted(root.rglob("*") if recursive else root.iterdir())
        paths = [path.relative_to(commit.folder).as_posix() for path in found]
        return JSONResponse([commit.entry(path) for path in paths])

    async def _paths(self, request: Request) -> Response:
        _, commit, _ = self._look_up(request)
        paths = parse_qs((await request.body()).decode()).get("paths", [])
        return JSONResponse([entry for path in paths if (entry := commit.entry(path))])

    async def _file(self, request: Request) -> Response:
        repository, commit, path = self._look_up(request)
        _check_reader(repository, _token(request))
        if path not in commit.files():
            raise Refused(404, "EntryNotFound", "Entry not found", commit)
        place = commit.folder / path
        return FileResponse(
            place, headers={"ETag": f'"{blob_id(place)}"', "X-Repo-Commit": commit.id}
        )

    def _look_up(self, request: Request) -> tuple[Repository, Commit, str]:
        """The repository, the commit, and the path behind the revision, if the address has one."""
        self.tokens.add(_token(request))
        given = request.path_params
        name = f"{given['owner']}/{given['name']}"
        repository = self._repositories.get((given.get("kind", Kind.MODEL), name))
        if repository is None:
            raise Refused(404, "RepoNotFound", "Repository not found")
        place = given.get("place", MAIN)
        for revision, commit in repository.commits().items():
            if place == revision or place.startswith(f"{revision}/"):
                return repository, commit, place[len(revision) + 1 :]
        raise Refused(404, "RevisionNotFound", f"Invalid rev id: {place.partition('/')[0]}")


class WritableHub(Hub):
    """A hub that takes uploads from one token, to repositories of one owner.

    ``stored`` are the large files by their digests, and ``commits`` the files of each commit.
    """

    def __init__(self, owner: str, writer: str) -> None:
        super().__init__()
        self.stored: dict[str, bytes] = {}
        self.commits: list[dict[str, bytes]] = []
        self._owner = owner
        self._writer = writer

    def app(self) -> Starlette:
        """The interface as a web application."""
        api = "/api/models/{owner}/{name}"
        routes = [
            Route("/api/whoami-v2", self._whoami),
            Route("/api/repos/create", self._create, methods=["POST"]),
            Route(f"{api}/auth-check/write", self._write_check),
            Route(f"{api}/preupload/{{revision}}", self._modes, methods=["POST"]),
            Route("/{owner}/{name}/info/lfs/objects/batch", self._batch, methods=["POST"]),
            Route("/upload/{digest}", self._store, methods=["PUT"]),
            Route(f"{api}/commit/{{revision}}", self._commit, methods=["POST"]),
        ]
        app = super().app()
        app.routes[:0] = routes
        return app

    async def _whoami(self, request: Request) -> Response:
        self._check_writer(request)
        return JSONResponse({"type": "user", "name": self._owner, "orgs": []})

    async def _create(self, request: Request) -> Response:
        self._check_writer(request)
        body = await request.json()
        if body.get("organization", self._owner) != self._owner:
            raise Refused(403, "Forbidden", "You may not write there")
        return JSONResponse({"url": f"{self.url}/{self._owner}/{body['name']}"})

    async def _write_check(self, request: Request) -> Response:
        self._check_writer(request)
        return JSONResponse({})

    async def _modes(self, request: Request) -> Response:
        """Weights are large files, all others regular ones."""
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                "shouldIgnore": False,
            }
            for file in (await request.json())["files"]
        ]
        return JSONResponse({"files": files})

    async def _batch(self, request: Request) -> Response:
        """Where to send each large file that is not here yet."""
        self._check_writer(request)
        wanted = []
        for each in (await request.json())["objects"]:
            upload = {"upload": {"href": f"{self.url}/upload/{each['oid']}"}}
            actions = {} if each["oid"] in self.stored else {"actions": upload}
            wanted.append({"oid": each["oid"], "size": each["size"], **actions})
        return JSONResponse({"transfer": "basic", "objects": wanted})

    async def _store(self, request: Request) -> Response:
        self.stored[request.path_params["digest"]] = await request.body()
        return Response()

    async def _commit(self, request: Request) -> Response:
        self._check_writer(request)
        commit = {}
        for line in (await request.body()).splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                commit[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                commit[value["path"]] = self.stored[value["oid"]]
        self.commits.append(commit)
        repository = f"{self._owner}/{request.path_params['name']}"
        oid = f"{len(self.commits):040x}"
        url = f"{self.url}/{repository}/commit/{oid}"
        return JSONResponse({"commitUrl": url, "commitOid": oid})

    def _check_writer(self, request: Request) -> None:
        self.tokens.add(_token(request))
        if _token(request) != self._writer:
            raise Refused(401, "", "Invalid username or password.")


_AnyHub = TypeVar("_AnyHub", bound=Hub)


@contextmanager
def running_hub() -> Iterator[Hub]:
    """An empty hub on a free port of the loopback interface, for the length of a block."""
    with running(Hub()) as hub:
        yield hub


@contextmanager
def running(hub: _AnyHub) -> Iterator[_AnyHub]:
    """A hub on a free port of the loopback interface, for the length of a block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hub.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(hub.app(), log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            wait_for(lambda: server.started, "the hub is up")
            yield hub
        finally:
            server.should_exit = True
            thread.join(20)


def blob_id(path: Path) -> str:
    """The git object id of a file's content."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _check_reader(repository: Repository, token: str | None) -> None:
    if repository.readers is None or token in repository.readers:
        return
    status = 401 if token is None else 403
    raise Refused(status, "GatedRepo", f"Access to {repository.name} is restricted.")


def _token(request: Request) -> str | None:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token if kind.lower() == "bearer" and token else None


async def _refusal(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return JSONResponse({"error": str(error)}, error.status, error.headers)
