"""`pbt batch` on a mixed list of real volumes, one in ten of them spoilt: rows, exit code, time by threads, memory by length of the list.

usage: PBT_DATA=... python3 benches/batch/mixed.py PBT MODEL [check | time | memory]...     all three without a word

check   exit code 3, a row with its reason for each spoilt file, the same tables from two shards and with --resume
time    the whole batch with all cores and with --threads 1, by turns, three times each
memory  the most that lists of 50, 100 and 200 volumes take
"""

import csv
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

FOLDERS = ["hippocampus/images", "mouse_skull/images", "lumbar_spine_mr/images", "prostate_us_mr/us_images", "prostate_us_mr/mr_images"]
COUNT = 200


def spread(data):
    """Sound volumes, nine in ten of the list, kinds mixed evenly: all of the small sets, and hippocampi to make up the number."""
    kinds = [sorted((data / folder).glob("*.nii.gz")) for folder in FOLDERS]
    wanted = COUNT * 9 // 10
    kinds[0] = kinds[0][: wanted - sum(map(len, kinds[1:]))]
    placed = [((n + 0.5) / len(kind), path) for kind in kinds for n, path in enumerate(kind)]
    assert len(placed) == wanted, f"{len(placed)} of {wanted} volumes below {data}"
    return [path for _, path in sorted(placed)]


def spoil(good, way, numbers):
    """What disks and transfers do to a compressed file."""
    middle = len(good) // 2
    return [
        good[:middle],
        good[:100],
        b"",
        numbers.randbytes(len(good)),
        good[:middle] + numbers.randbytes(64) + good[middle + 64 :],
        b"<html>404 Not Found</html>\n",
    ][way % 6]


def write_list(data, folder):
    """Rows (case, path), the tenth of every ten spoilt."""
    numbers, rows = random.Random(1), []
    for n, path in enumerate(spread(data)):
        rows.append((f"c{len(rows):03}", path))
        if n % 9 == 8:
            case = f"c{len(rows):03}"
            spoilt = folder / f"{case}.nii.gz"
            spoilt.write_bytes(spoil(path.read_bytes(), n // 9, numbers))
            rows.append((case, spoilt))
    return rows


class Batch:
    def __init__(self, pbt, model, rows, folder):
        self.pbt, self.model, self.rows, self.folder = pbt, model, rows, folder

    def run(self, out, *options, count=COUNT, expect=3):
        """Seconds and MB of one run."""
        list_file = self.folder / f"{count}.csv"
        with open(list_file, "w", newline="") as file:
            csv.writer(file).writerows([("case_id", "path"), *self.rows[:count]])
        command = [self.pbt, "batch", "-q", "--device", "cpu", "-m", self.model, "-i", list_file, "-o", self.folder / out, *options]
        started = time.perf_counter()
        child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == expect, f"exit code {child.returncode} instead of {expect}"
        return seconds, usage.ru_maxrss / 1024

    def table(self, out):
        return (self.folder / out / "detections.csv").read_text()


def check(batch):
    batch.run("whole")
    table = list(csv.DictReader(batch.table("whole").splitlines()))
    spoilt = {case for case, path in batch.rows if path.parent == batch.folder}
    failed = [row for row in table if row["status"] == "failed"]
    assert [row["case_id"] for row in failed] == sorted(spoilt) and all(row["reason"] for row in failed)
    assert {row["case_id"] for row in table} == {case for case, _ in batch.rows}
    record = json.loads((batch.folder / "whole/run.json").read_text())
    assert len(record["failed"]) == len(spoilt), record["counts"]
    for row in failed[:6]:
        print(f"  {row['case_id']}: {row['reason'].replace(str(batch.folder) + '/', '')}")

    batch.run("one-thread", "--threads", "1")
    batch.run("parts", "--shard", "1/2", expect=0 if all(int(case[1:]) % 2 for case in spoilt) else 3)
    batch.run("parts", "--shard", "2/2")
    for other in ["one-thread", "parts"]:
        assert batch.table(other) == batch.table("whole"), other
    removed = [case for case, _ in batch.rows if case not in spoilt][::7]
    for case in removed:
        (batch.folder / "whole" / f"{case}.json").unlink()
    before = batch.table("whole")
    batch.run("whole", "--resume")
    counts = json.loads((batch.folder / "whole/run.json").read_text())["counts"]
    assert batch.table("whole") == before and counts["detected"] == len(removed), counts
    print(f"check: {len(batch.rows)} cases, {len(failed)} failed rows; one thread, two shards and --resume write the same table")


def measure_time(batch):
    seconds = {"all cores": [], "--threads 1": []}
    for turn in range(3):
        seconds["all cores"].append(batch.run(f"t{turn}")[0])
        seconds["--threads 1"].append(batch.run(f"s{turn}", "--threads", "1")[0])
    for name, values in seconds.items():
        print(f"time: {name}: {', '.join(f'{value:.2f}' for value in values)} s")
    best = {name: min(values) for name, values in seconds.items()}
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    for name, values in [("least", best), ("median", middle)]:
        print(f"time: {name}: --threads 1 takes {values['--threads 1'] / values['all cores']:.2f} times as long ({os.cpu_count()} cores)")


def measure_memory(batch):
    for count in [50, 100, 200]:
        print(f"memory: {count} volumes: {batch.run(f'm{count}', count=count)[1]:.0f} MB")


def main():
    pbt, model, *what = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        batch = Batch(pbt, model, write_list(pathlib.Path(os.environ["PBT_DATA"]).resolve(), folder), folder)
        for name, step in {"check": check, "time": measure_time, "memory": measure_memory}.items():
            if not what or name in what:
                step(batch)


if __name__ == "__main__":
    main()
