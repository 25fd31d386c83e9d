"""Cost of preparing DAPO-Math-17k as the hub has it: 17,917 rows, a hundred times each.

    python benchmarks/prepare.py [--problems 17917] [--repeats 100] [--source FILE]

Makes such a file of random words in the layout of the published one, or takes FILE (a copy of it),
prepares it in a process of its own, and prints the rows, the CPU and wall seconds and the peak
memory. Needs pyarrow: pip install -e '.[math]'.
"""

import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow
from pyarrow import parquet

from metis.data.problems import PREFIX, SUFFIX


def make(path: Path, problems: int, repeats: int) -> None:
    """A file in the layout of the published one, its rows in another order in every repeat."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=rng.randrange(1, 9))) for _ in range(5000)]
    texts = [" ".join(rng.choices(words, k=rng.randrange(10, 120))) for _ in range(problems)]
    rows = [(f"{PREFIX}\n\n{text}\n\n{SUFFIX}", str(rng.randrange(1000))) for text in texts]
    writer = None
    for _ in range(repeats):
        rng.shuffle(rows)
        table = pyarrow.Table.from_pylist(
            [
                {
                    "data_source": "math_dapo",
                    "prompt": [{"content": content, "role": "user"}],
                    "ability": "MATH",
                    "reward_model": {"ground_truth": answer, "style": "rule-lighteval/MATH_v2"},
                    "extra_info": {"index": f"{rng.getrandbits(128):032x}"},
                }
                for content, answer in rows
            ]
        )
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer:
        writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=17_917)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--source", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = options.source or Path(folder) / "dapo-math-17k.parquet"
        if options.source is None:
            make(source, options.problems, options.repeats)
        command = ["prepare", "math", f"dapo={source.resolve()}", "--out", f"{folder}/out"]
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "metis.cli", *command], check=True, env=os.environ)
        wall = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    print(f"{cpu:.1f} s CPU, {wall:.1f} s wall, peak memory {used.ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
