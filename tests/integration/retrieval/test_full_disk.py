"""A disk that fills up during a build leaves the existing index intact."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.search.index_building import IndexFolder, rows
from tests.support.small_disk import IN_A_SMALL_FILE_SYSTEM, require_mounts

MEGABYTES = 3

SCRIPT = """
mount -t tmpfs -o size={size}m tmpfs "$TEMPER_RETRIEVAL_INDEXES"
index="{python} -m temper index"
$index create library --corpus {small}
if $index create library --corpus {large} 2>{errors}; then exit 9; fi
find "$TEMPER_RETRIEVAL_INDEXES" -name 'building*' >{left}
$index list --json
$index create library --corpus {small} --language none
"""


def test_a_full_disk_leaves_the_index_unchanged_and_says_what_to_do(tmp_path: Path) -> None:
    require_mounts()
    folder = IndexFolder(tmp_path)
    folder.indexes.mkdir()
    errors, left = tmp_path / "errors", tmp_path / "left"
    script = SCRIPT.format(
        size=MEGABYTES,
        python=sys.executable,
        small=folder.corpus("small.jsonl", rows(20)),
        large=folder.corpus("large.jsonl", rows(30_000)),
        errors=errors,
        left=left,
    )

    run = subprocess.run(
        [*IN_A_SMALL_FILE_SYSTEM, script],
        env=folder.environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    told = errors.read_text()
    assert "index 'library' is unchanged" in told
    assert "free space" in told
    assert "(storage_full)" in told
    assert left.read_text() == ""
    document = run.stdout[run.stdout.index("{") : run.stdout.rindex("}") + 1]
    (library,) = json.loads(document)["indexes"]
    assert (library["documents"], library["problem"]) == (20, None)
