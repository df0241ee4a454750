"""200 real volumes by `pbt batch`, by two shards side by side, and by `pbt-ray`, by turns: seconds a volume after the start.

usage: PBT_DATA=... PYTHON benches/batch/ways.py MODEL [TURNS]     PYTHON has the wheel and Ray

The start is what a run takes for 2 volumes, measured beside it; `pbt-ray` says itself when its actors are ready. All ways run the
program of the same wheel on two cores, write the same files, and their tables must be the same.
"""

import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import pyarrow.parquet

FOLDERS = ["hippocampus/images", "mouse_skull/images", "lumbar_spine_mr/images", "prostate_us_mr/us_images"]
COUNT = 200
BIN = pathlib.Path(sys.executable).parent

# Ray's processes yield to all others of the machine (nice 15), which would be measured too where it is not idle.
os.environ["RAY_worker_niceness"] = "0"


def write_list(data, path):
    """Half of them hippocampi, kinds mixed evenly, small sets repeated."""
    kinds = [sorted((data / folder).glob("*.nii.gz")) for folder in FOLDERS]
    rows = []
    for n in range(COUNT):
        kind = kinds[0] if n % 2 else kinds[1 + n // 2 % 3]
        rows.append((f"c{n:03}", kind[n // 2 % len(kind)]))
    for count, name in [(2, "short.csv"), (COUNT, "list.csv")]:
        with open(path / name, "w", newline="") as file:
            csv.writer(file).writerows([("case_id", "path"), *rows[:count]])


def run(*commands):
    """Seconds until all of them, started together, are done."""
    begun = time.perf_counter()
    children = [subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL) for command in commands]
    assert all(child.wait() == 0 for child in children)
    return time.perf_counter() - begun


def main():
    model, turns = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_list(pathlib.Path(os.environ["PBT_DATA"]).resolve(), folder)

        def batch(out, *more, of="list.csv"):
            return [BIN / "pbt", "batch", "-q", "--device", "cpu", "-m", model, "-i", folder / of, "-o", folder / out, *more]

        def note(way, value, start):
            seconds.setdefault(way, []).append((1e3 * (value - start) / COUNT, start))

        for turn in range(turns):
            a, b, c = f"a{turn}", f"b{turn}", f"c{turn}"
            start = run(batch(f"s{turn}", of="short.csv"))
            note("pbt batch", run(batch(a)), start)
            note("two shards, --threads 1", run(*(batch(b, "--threads", "1", "--shard", f"{n}/2") for n in (1, 2))), start)
            run(batch(b, "--resume"))
            for part in (8, 32):
                run([BIN / "pbt-ray", "-q", "-m", model, "-i", folder / "list.csv", "-o", folder / f"{c}-{part}", "--actors", "2", "--part", part])
                of_run = json.loads((folder / f"{c}-{part}/run.json").read_text())["seconds"]
                note(f"pbt-ray, 2 actors, parts of {part}", of_run["total"], of_run["start"])
            tables = [pyarrow.parquet.read_table(folder / out / "detections.parquet") for out in (a, b, f"{c}-8", f"{c}-32")]
            assert all(table.equals(tables[0]) for table in tables)

    first = [value for value, _ in seconds["pbt batch"]]
    print(f"{os.cpu_count()} cores, {COUNT} volumes, {turns} turns\n\n| way | ms a volume, median (least) | beside `pbt batch`, median of turns | start, s |\n|---|---|---|---|")
    for way, values in seconds.items():
        each, starts = zip(*values)
        ratio = statistics.median(value / other for value, other in zip(each, first))
        print(f"| {way} | {statistics.median(each):.1f} ({min(each):.1f}) | {ratio:.2f} | {statistics.median(starts):.1f} |")


if __name__ == "__main__":
    main()
