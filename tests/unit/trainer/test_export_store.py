"""An export to a folder, interrupted anywhere, resumes."""

import json
from pathlib import Path

import pytest

from services.trainer.exporting.package import ExportedFile
from services.trainer.exporting.store import MANIFEST, PARTIAL, SENT, Store


def send(folder: Path, sizes: list[int]) -> None:
    weights = folder / "weights"
    weights.write_bytes(b"w" * 10)
    store = Store(f"file://{folder}/target", {}, "export-1", folder / SENT)
    store.send([ExportedFile(weights, "weights")], sizes.append)


def test_a_kill_while_the_progress_is_written_keeps_the_previous_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, _text: str) -> None:
        path.write_bytes(b'{"wei')
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "write_text", killed)
        send(tmp_path, [])
    send(tmp_path, [])

    assert json.loads((tmp_path / "target" / MANIFEST).read_bytes())["complete"]


def test_a_kill_while_the_manifest_is_written_leaves_a_free_folder(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / f"{MANIFEST}{PARTIAL}").write_bytes(b'{"job')

    send(tmp_path, [])

    assert json.loads((target / MANIFEST).read_bytes())["complete"]
    assert not (target / f"{MANIFEST}{PARTIAL}").exists()
