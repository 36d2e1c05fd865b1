"""Validation speed of training files, and its memory as the file grows.

Prints rows per second of validation, for each container and with and without a tokenizer, next to
those of json.loads over the lines of the same file; then the peak memory of validating a file and
one four times as long, each in its own process. Run from the repository root:

    python -m benchmarks.validation [rows]
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from services.contracts.training.rows import DataFormat, RowKind
from services.trainer.offline.rows.lengths import row_lengths
from services.trainer.offline.validation import scan_training_file

ROWS = 100_000
MAX_SEQ_LENGTH = 2048


def main() -> None:
    """Run the benchmark."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        tokenizer = train_tokenizer(root / "tokenizer.json")
        files = write_files(root, "short", rows)
        longer = write_files(root, "long", 4 * rows)
        plain = seconds(lambda: load_lines(files[0]))
        print(f"{rows:,} rows, {files[0].stat().st_size / rows:,.0f} bytes each as JSONL")
        print(f"{'json.loads a line':<28}{rows / plain:>10,.0f} rows/s   ratio {1:.2f}")
        for file in files:
            show(f"validate {file.suffix[1:]}", rows, plain, partial(validate, file, None))
        show("validate jsonl with tokens", rows, plain, partial(validate, files[0], tokenizer))
        for file, long_file in zip(files, longer, strict=True):
            short, long = peak_mebibytes(file, tokenizer), peak_mebibytes(long_file, tokenizer)
            print(
                f"peak memory {file.suffix[1:]:<8}{short:>4,.0f} MiB; 4 times the rows: "
                f"{long:,.0f} MiB, ratio {long / short:.2f}"
            )


def show(name: str, rows: int, plain: float, action: Callable[[], None]) -> None:
    """Time an action and print it next to plain reading."""
    taken = seconds(action)
    print(f"{name:<28}{rows / taken:>10,.0f} rows/s   ratio {plain / taken:.2f}")


def seconds(action: Callable[[], None]) -> float:
    """Return the shortest of three runs."""
    times = []
    for _ in range(3):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return min(times)


def validate(path: Path, tokenizer: Path | None) -> None:
    """Validate a file that must be valid."""
    lengths = row_lengths(tokenizer, MAX_SEQ_LENGTH)
    report = scan_training_file(
        path,
        RowKind.DEMONSTRATION,
        DataFormat.AUTO,
        lengths,
        max_errors=20,
        progress=lambda _: None,
    )
    report.scan.raise_errors(path.name, code="invalid_training_file")


def load_lines(path: Path) -> None:
    """Parse each line; the baseline."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            json.loads(line)


def peak_mebibytes(path: Path, tokenizer: Path) -> float:
    """Return the peak resident size of a process that validates the file."""
    command = [sys.executable, "-m", "benchmarks.validation", "--peak", str(path), str(tokenizer)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
    return int(output) / 1024


def print_peak(path: Path, tokenizer: Path) -> None:
    """Validate in this process and print its peak resident size in KiB."""
    validate(path, tokenizer)
    # Not getrusage: its figure is inherited from the parent.
    status = Path("/proc/self/status").read_text()
    print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def write_files(root: Path, name: str, rows: int) -> tuple[Path, Path, Path]:
    """Write the same rows as JSONL, JSON and Parquet, the last in one row group."""
    jsonl, array, parquet = (root / f"{name}.{kind}" for kind in ("jsonl", "json", "parquet"))
    write_jsonl(jsonl, rows)
    with open(array, "w", encoding="utf-8") as file:
        for position, row in enumerate(generated(rows)):
            file.write(("[" if position == 0 else ",\n") + json.dumps(row))
        file.write("]\n")
    batches = (pa.RecordBatch.from_pylist(piece) for piece in pieces(generated(rows)))
    pq.write_table(pa.Table.from_batches(batches), parquet, row_group_size=rows)
    return jsonl, array, parquet


def pieces(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in lists of 10,000."""
    while piece := list(islice(rows, 10_000)):
        yield piece


def write_jsonl(path: Path, rows: int) -> None:
    """Write generated rows, one per line."""
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in generated(rows))


def generated(rows: int) -> Iterator[dict[str, Any]]:
    """Yield chat rows of three messages, about 50 words in all, deterministically."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 9))) for _ in range(5000)]
    for _ in range(rows):
        yield {
            "messages": [
                {"role": "system", "content": "Answer in few words."},
                {"role": "user", "content": " ".join(draw.choices(words, k=20))},
                {"role": "assistant", "content": " ".join(draw.choices(words, k=30))},
            ]
        }


def train_tokenizer(path: Path) -> Path:
    """Train a byte-level BPE tokenizer of 8,000 tokens with ChatML's markers."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(
        vocab_size=8000,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = (message["content"] for row in generated(2000) for message in row["messages"])
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(path))
    return path


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        print_peak(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
