"""Training, evaluation and batches, and the command that comes with the package."""

import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

import pbt


class Stop(Exception):
    pass


def test_training_gives_the_bytes_of_the_command(tiny, tmp_path):
    out = tmp_path / "new" / "gland.pbt"
    news, turns, done = [], [], threading.Event()

    def count():
        while not done.wait(0.01):
            turns.append(1)

    counter = threading.Thread(target=count)
    counter.start()
    try:
        model = pbt.train(
            tiny.folder, out, config=tiny.config, structure="gland", threads=2,
            progress=lambda what, share: news.append((what, share)),
        )  # fmt: skip
    finally:
        done.set()
        counter.join()
    assert out.read_bytes() == tiny.model.read_bytes()
    assert model.sha256 == pbt.load(tiny.model).sha256
    assert json.loads(out.with_suffix(".train.json").read_text())["schema"] == "pbt-training/1"
    shares = [share for _, share in news]
    assert shares == sorted(shares) and 0 <= shares[0] and shares[-1] <= 1
    assert "gland" in news[0][0]
    assert len(turns) > 5, "the interpreter's lock is not released"


def test_a_callback_may_end_a_training_and_it_goes_on_later(tiny, tmp_path):
    out = tmp_path / "gland.pbt"
    partial = out.with_suffix(".partial")

    def end(what, share):
        if partial.exists():
            raise Stop(what)

    with pytest.raises(Stop):
        pbt.train(tiny.folder, out, config=tiny.config, progress=end)
    assert partial.exists() and not out.exists()
    pbt.train(tiny.folder, out, config=tiny.config, resume=True)
    assert out.read_bytes() == tiny.model.read_bytes() and not partial.exists()


def test_what_the_commands_warn_of_python_warns_of(tiny, tmp_path):
    data, out = tmp_path / "data", tmp_path / "gland.pbt"
    shutil.copytree(tiny.folder, data)
    described = json.loads((data / "dataset.json").read_text())
    described["cases"][1]["split"] = "trian"
    (data / "dataset.json").write_text(json.dumps(described))
    with pytest.warns(UserWarning, match="have the split `trian`: c1") as told:
        pbt.train(data, out, config=data / "quick.toml")
    assert {warning.filename for warning in told} == {__file__}
    table = tmp_path / "list.csv"
    table.write_text("case_id,path\n" + "".join(f"{n},data/c{n}.nii.gz\n" for n in (6, 7)))
    with pytest.warns(UserWarning, match=r"^score: was not measured .* \(2 cases\)$"):
        pbt.batch(out, table, tmp_path / "found")
    with warnings.catch_warnings(), pytest.raises(UserWarning, match="trian"):
        warnings.simplefilter("error")
        pbt.train(data, tmp_path / "other.pbt", config=data / "quick.toml")


def interrupt(program, partial):
    """Sends Ctrl-C once a stage is done; returns what was printed, the exit code and the seconds
    that the end took."""
    # A group of its own, so that only it is interrupted.
    process = subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 120
        while not partial.exists():
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        begun = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        shown = process.communicate(timeout=60)[0]
        return shown, process.returncode, time.monotonic() - begun
    finally:
        process.kill()


def test_control_c_ends_a_training_and_keeps_the_checkpoint(tiny, tmp_path):
    code = """
import sys, pbt
try:
    pbt.train(sys.argv[1], sys.argv[2])
except KeyboardInterrupt:
    print("interrupted")
"""
    out = tmp_path / "gland.pbt"
    program = [sys.executable, "-c", code, str(tiny.folder), str(out)]
    shown, code, seconds = interrupt(program, out.with_suffix(".partial"))
    assert (shown, code) == ("interrupted\n", 0)
    assert seconds < 20, seconds
    assert out.with_suffix(".partial").exists() and not out.exists()


def test_control_c_ends_the_command(tiny, tmp_path):
    out = tmp_path / "gland.pbt"
    program = [sys.executable, "-m", "pbt", "train", "-i", str(tiny.folder), "-o", str(out)]
    shown, code, seconds = interrupt(program, out.with_suffix(".partial"))
    assert code == 130 and "--resume" in shown and "Traceback" not in shown, shown
    assert seconds < 20, seconds


def test_control_c_ends_detections(tiny):
    code = """
import os, signal, sys, threading, time, pbt
model = pbt.load(sys.argv[1])
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        model.detect(sys.argv[2])
except KeyboardInterrupt:
    print("interrupted")
"""
    program = [sys.executable, "-c", code, str(tiny.model), str(tiny.image)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr


def test_evaluation_is_that_of_the_command(tiny, model, command, tmp_path):
    path = tmp_path / "report.json"
    command("evaluate", "-m", tiny.model, "-i", tiny.folder, "-o", path)
    theirs = json.loads(path.read_text())
    news = []
    ours = pbt.evaluate(tiny.folder, model, progress=lambda *told: news.append(told))
    assert ours.keys() == theirs.keys()
    for key in ours.keys() - {"seconds", "timing_ms", "device"}:
        assert ours[key] == theirs[key], key
    assert news[-1] == ("c8", 1.0)
    kept = pbt.evaluate(tiny.folder, model, cases=1, output=path)
    assert len(kept["records"]) == 1 and json.loads(path.read_text()) == kept
    folds = dict(folds=2, cases=4, config=tiny.folder / "quick.toml", models=tmp_path / "folds")
    first = pbt.evaluate(tiny.folder, **folds)
    assert (tmp_path / "folds" / "fold-2.pbt").is_file()
    assert pbt.evaluate(tiny.folder, **folds)["records"] == first["records"]
    paired = pbt.evaluate(tiny.folder, compare=(tiny.model, tiny.model))
    assert paired["a"] != {} and paired["b"] != {}
    # A model by its name, and one that was loaded.
    sides = ("phantom-us", pbt.load(tiny.model))
    pbt.evaluate(tiny.folder, compare=sides, structure="gland", output=path)


def test_a_batch_is_that_of_the_command(tiny, command, tmp_path):
    rows = ["case_id,path"] + [f"case {n},{tiny.folder / f'c{n}.nii.gz'}" for n in range(6, 9)]
    rows += ["bad,missing.nii.gz"]
    table = tmp_path / "list.csv"
    table.write_text("\n".join(rows) + "\n")
    command("batch", "-m", tiny.model, "-i", table, "-o", tmp_path / "a", code=3)
    news = []
    run = pbt.batch(
        tiny.model, table, tmp_path / "b", threads=2, progress=lambda *told: news.append(told)
    )
    assert run["counts"] == {"cases": 4, "detected": 3, "resumed": 0, "failed": 1}
    assert [failed["case_id"] for failed in run["failed"]] == ["bad"]
    assert run["device"]["threads"] in (2, os.cpu_count())
    assert news[-1][1] == 1.0
    for name in ["detections.csv", "detections.parquet"]:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    again = pbt.batch(pbt.load(tiny.model), table, tmp_path / "b", resume=True)
    assert again["counts"]["resumed"] == 3

    def stop(what, share):
        raise Stop

    with pytest.raises(Stop):
        pbt.batch(tiny.model, table, tmp_path / "c", progress=stop)


def test_every_option_of_the_commands_is_a_keyword(command):
    # What Python has by other means: -q, -v and --help, and memory by the system's own limits.
    without = {"quiet", "verbose", "help", "version", "memory", "input", "output", "model"}
    for function in (pbt.train, pbt.evaluate, pbt.batch):
        shown = command(function.__name__, "--help").stdout
        options = set(re.findall(r"^ +(?:-\w, )?--([a-z-]+)", shown, re.MULTILINE))
        assert len(options) > 10, shown
        names = {option.replace("-", "_") for option in options} - without
        assert names <= inspect.signature(function).parameters.keys(), function.__name__


def test_the_command_comes_with_the_package(tiny, command, tmp_path):
    script = Path(sys.executable).with_name("pbt")

    def ours(*arguments):
        return subprocess.run([script, *map(str, arguments)], capture_output=True, text=True)

    for arguments, code in [
        (["--version"], 0),
        (["info", tiny.model], 0),
        (["detect"], 2),
        (["info", tmp_path / "missing.pbt"], 4),
        (["info", tiny.config], 5),
        (["detect", "-m", tiny.model, "-i", tiny.image, "-o", tmp_path, "--device", "gpu:99"], 6),
    ]:
        theirs = command(*arguments, code=code)
        done = ours(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (code, theirs.stdout, theirs.stderr)
    assert pbt.__version__ in ours("--version").stdout
