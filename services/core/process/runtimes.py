"""Installed runtimes, and the environment that child processes inherit."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ValidationError

from services.contracts.errors import TemperError
from services.core.process.startup.sitecustomize import STACKS_FILE

MARKER = "TEMPER_PROCESS_TREE"
"""Environment variable with the name of the process tree; every process of it inherits it."""

REPOSITORY = Path(__file__).resolve().parents[3]
SEARCH_PATH = os.pathsep.join(map(str, (REPOSITORY, Path(__file__).with_name("startup"))))
"""Where the Python of a child finds the code of the services, and what it runs first."""
STAMP = "runtime.json"
"""Written by the installer as its last step: a runtime without it is incomplete."""

INHERITED = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LANG", "LANGUAGE", "TMPDIR"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("HF_HOME", "HF_TOKEN", "HF_ENDPOINT", "HF_DATASETS_CACHE", "TRANSFORMERS_OFFLINE"),
        *("LD_LIBRARY_PATH", "XDG_CACHE_HOME", "TORCH_HOME", "TRITON_CACHE_DIR"),
        MARKER,  # by which the supervisor finds the processes of a tree
        STACKS_FILE,  # into which they write where they hang
    }
)
INHERITED_PREFIXES = (
    *("LC_", "HF_HUB_", "CUDA_", "NVIDIA_", "NCCL_", "GLOO_", "OMP_", "GOMP_", "KMP_", "MKL_"),
    *("PYTORCH_", "VLLM_CACHE_"),
)


class RuntimeMissing(TemperError):
    """A required runtime is not installed, or incomplete."""

    code = "runtime_missing"


class Accelerator(StrEnum):
    """The hardware that a runtime's packages are built for."""

    CPU = "cpu"
    CUDA = "cuda"


@dataclass(frozen=True)
class Runtime:
    """An installed runtime; ``version`` changes with its packages."""

    name: str
    python: Path
    version: str
    accelerator: Accelerator


class _Stamp(BaseModel):
    version: str
    accelerator: Accelerator


def find_runtime(runtimes: Path, name: str) -> Runtime:
    """Return the runtime ``name`` of the folder ``runtimes``; raises `RuntimeMissing`."""
    folder = runtimes / name
    python = folder / "bin" / "python"
    try:
        stamp = _Stamp.model_validate_json((folder / STAMP).read_bytes())
    except FileNotFoundError:
        state = "incompletely installed" if python.exists() else "not installed"
        raise _missing(runtimes, name, state) from None
    except (OSError, ValidationError) as error:
        raise _missing(runtimes, name, f"damaged ({STAMP} is unreadable)") from error
    if not python.exists():
        raise _missing(runtimes, name, f"damaged ({python} is missing)")
    return Runtime(name, python, stamp.version, stamp.accelerator)


def runtimes_of(python: Path) -> Path:
    """The folder of all runtimes, of which one has the interpreter ``python``."""
    return python.parent.parent.parent


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the complete environment of a child; ``extra`` overrides inherited variables.

    Only the variables listed above are inherited: neither database and broker addresses nor keys.
    OpenMP's threads wait without spinning, unless the operator chose otherwise: beside other
    processes, spinning ones made a step of a tiny model take fifteen times the processor's time.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED or name.startswith(INHERITED_PREFIXES)
    }
    return {
        "OMP_WAIT_POLICY": "PASSIVE",
        **inherited,
        "PYTHONPATH": SEARCH_PATH,
        "PYTHONUNBUFFERED": "1",
        **extra,
    }


FOREIGN = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""What programs that are none of ours inherit: no key is among it."""


def foreign_environment(home: Path) -> dict[str, str]:
    """The environment of a program that the operator lets requests start by name."""
    inherited = {name: os.environ[name] for name in FOREIGN if name in os.environ}
    return {**inherited, "HOME": str(home)}


def _missing(runtimes: Path, name: str, state: str) -> RuntimeMissing:
    command = f"python {REPOSITORY / 'infra' / 'runtimes' / 'install.py'} {name}"
    return RuntimeMissing(
        f"runtime {name!r} is {state} in {runtimes}; "
        f"install it with: {command} --home {runtimes.parent}"
    )
