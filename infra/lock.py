"""Compiles the locks from the direct requirements: ``python infra/lock.py [--upgrade] [NAME ...]``.

Pins that still resolve are kept; with ``--upgrade`` everything moves to the newest release.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

INFRA = Path(__file__).resolve().parent
UV = Path(sys.executable).with_name("uv")
COMPILE_SECONDS = 900.0

OPTIONS = (
    "--universal",
    "--python-version=3.11",
    "--no-header",
    "--no-emit-index-url",
    "--no-emit-find-links",
)
# Where there is a variant for GPUs, torch itself is installed before the lock, from an index that
# has builds without CUDA, unless UV_FIND_LINKS names a folder or page with such a build.
CPU_INDEX = (
    "--extra-index-url=https://download.pytorch.org/whl/cpu",
    "--index-strategy=unsafe-best-match",
)
# Required by vLLM's metadata, unused for text, and without a CPU build for this torch.
LEFT_OUT = {"vllm/cpu": ("torchvision", "torchaudio", "torchcodec", "triton")}

# They decide which ids a text becomes and which models load, so training, encoder and gateway take
# the versions of the engine, whose own requirements are the narrowest.
ENGINE = "vllm/cpu"
SHARED = ("transformers", "tokenizers")


def sources() -> dict[str, Path]:
    """Files of direct requirements by name: core, dev, docs, training/cpu, ...

    The order matters: the engine's lock decides the `SHARED` versions, and dev.in and sandbox.in
    are constrained by the lock of the core environment.
    """
    runtimes = INFRA / "runtimes"
    return {
        ENGINE: runtimes / f"{ENGINE}.in",
        "core": INFRA.parent / "pyproject.toml",
        "dev": INFRA / "requirements" / "dev.in",
        "sandbox": INFRA / "requirements" / "sandbox.in",
        "docs": INFRA / "requirements" / "docs.in",
        **{f"{path.parent.name}/{path.stem}": path for path in sorted(runtimes.glob("*/*.in"))},
    }


def lock_of(name: str, source: Path) -> Path:
    """The lock of the direct requirements ``source``: beside it, but for the project's own."""
    return INFRA / "requirements" / "core.txt" if name == "core" else source.with_suffix(".txt")


def compile_command(name: str, source: Path, *, upgrade: bool) -> list[str]:
    """The command, run in the folder of ``source``, that writes its lock beside it."""
    options = list(OPTIONS)
    if name.endswith("/cpu") and source.with_name("cuda.in").exists():
        options.append("--no-emit-package=torch")
        options += () if os.environ.get("UV_FIND_LINKS") else CPU_INDEX
    options += [f"--no-emit-package={package}" for package in LEFT_OUT.get(name, ())]
    if upgrade:
        options.append("--upgrade")
    if name != ENGINE:
        options += [f"--upgrade-package={pin}" for pin in shared_pins()]
    if name == "core":
        options.append("--all-extras")
    target = lock_of(name, source).relative_to(source.parent)
    return [str(UV), "pip", "compile", "--quiet", *options, source.name, "-o", str(target)]


def shared_pins() -> list[str]:
    """The lines of the engine's lock that pin `SHARED` packages."""
    lines = (INFRA / "runtimes" / f"{ENGINE}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.partition("==")[0] in SHARED]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile the named locks, or all; return 0, or 1 when one could not be compiled."""
    known = sources()
    parser = argparse.ArgumentParser(prog="lock.py", description="Compile the locks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument("--upgrade", action="store_true", help="to the newest releases that fit")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - known.keys():
        parser.error(f"no such lock: {', '.join(sorted(unknown))}")
    for name in options.names or known:
        source = known[name]
        print(f"{lock_of(name, source).relative_to(INFRA.parent)}", flush=True)
        command = compile_command(name, source, upgrade=options.upgrade)
        try:
            subprocess.run(command, cwd=source.parent, timeout=COMPILE_SECONDS, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"not compiled: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
