"""Batches on a Ray of this machine with two CPUs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet
import pytest
import ray

import pbt
import pbt.ray
from pbt.ray._cases import Case


@pytest.fixture(scope="module")
def two_cpus():
    """A Ray of two CPUs, whose processes end when they come upon an image named ``deadly``."""

    def arm():
        import os

        import pbt

        detect = pbt.Model.detect

        def detect_or_die(model, image, *arguments, **options):
            if os.path.basename(image) == "deadly.nii.gz":
                os._exit(9)
            return detect(model, image, *arguments, **options)

        pbt.Model.detect = detect_or_die

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        address="local",
        num_cpus=2,
        num_gpus=1,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"worker_process_setup_hook": arm},
    )
    yield
    ray.shutdown()


@pytest.fixture
def cases(tiny, tmp_path):
    """A list of seven sound images, one that is missing and one that is none."""
    (tmp_path / "junk.nii.gz").write_text("no image")
    rows = [(f"p{n}", tiny.folder / f"c{n}.nii.gz") for n in range(8, 1, -1)]
    rows.insert(0, ("junk", "junk.nii.gz"))
    rows.insert(3, ("missing", "missing.nii.gz"))
    path = tmp_path / "list.csv"
    path.write_text("case_id,path\n" + "".join(f"{case_id},{image}\n" for case_id, image in rows))
    return path


def table(folder):
    return pyarrow.parquet.read_table(folder / "detections.parquet")


def times(folder):
    return {path.name: path.stat().st_mtime_ns for path in sorted((folder / "parts").iterdir())}


def test_rows_and_files_are_those_of_batch(two_cpus, tiny, cases, command, tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    command("batch", "-m", tiny.model, "-i", cases, "-o", a, code=3)
    news = []
    run = pbt.ray.run(tiny.model, cases, b, part=2, progress=lambda *told: news.append(told))
    assert table(b).equals(table(a)) and table(b).schema.equals(table(a).schema)
    assert run["counts"] == {"cases": 9, "detected": 7, "resumed": 0, "failed": 2}
    assert run == json.loads((b / "run.json").read_text())
    assert run["options"]["actors"] == 2 and run["device"]["threads"] == 1
    theirs = json.loads((a / "run.json").read_text())
    assert [(f["case_id"], f["reason"]) for f in run["failed"]] == [
        (f["case_id"], f["reason"]) for f in theirs["failed"]
    ]
    # Ray writes results and labels, not these.
    batch_alone = {"probabilities", "leaves", "first_tree_leaf"}
    assert run.keys() == theirs.keys()
    assert theirs["options"].keys() - batch_alone < run["options"].keys()
    assert news[-1] == ("9 of 9 cases", 1.0) and len(news) == 5
    files = sorted(path.name for path in a.iterdir() if path.name != "detections.csv")
    assert sorted(path.name for path in b.iterdir() if path.name != "parts") == files
    for name in files:
        if name.endswith(".mrk.json"):
            assert (a / name).read_bytes() == (b / name).read_bytes()
        elif name.startswith("p"):
            ours, theirs = ((folder / name).read_text() for folder in (b, a))
            until_run = theirs.index('  "run": ')
            assert ours[:until_run] == theirs[:until_run]


def test_what_is_finished_is_left_alone_and_what_failed_is_tried_again(
    two_cpus, tiny, cases, command, tmp_path
):
    out = tmp_path / "out"
    pbt.ray.run(tiny.model, cases, out, part=3, tables_only=True)
    first = times(out)
    assert list(first) == ["000000.parquet", "000001.parquet", "000002.parquet"]
    # Both parts with a failed case are looked at again, the third is not.
    shutil.copy(tiny.image, tmp_path / "junk.nii.gz")
    (out / "parts" / "000001.parquet").write_bytes(b"cut off")
    (out / "parts" / "000007.parquet").write_bytes(b"of a longer list")
    run = pbt.ray.run(tiny.model, cases, out, part=3, tables_only=True, resume=True)
    assert run["counts"] == {"cases": 9, "detected": 3, "resumed": 5, "failed": 1}
    second = times(out)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] == second[name]] == ["000002.parquet"]
    command("batch", "-m", tiny.model, "-i", cases, "-o", tmp_path / "batch", code=3)
    assert table(out).equals(table(tmp_path / "batch"))
    files = [path.name for path in sorted(out.iterdir())]
    assert files == ["detections.parquet", "parts", "run.json"]
    # Where everything is there, no actor is started.
    shutil.copy(tiny.image, tmp_path / "missing.nii.gz")
    pbt.ray.run(tiny.model, cases, out, part=3, tables_only=True, resume=True)
    third = times(out)
    run = pbt.ray.run(tiny.model, cases, out, part=3, tables_only=True, resume=True)
    assert run["counts"] == {"cases": 9, "detected": 0, "resumed": 9, "failed": 0}
    assert run["options"]["actors"] == 0 and times(out) == third
    # Where files of cases are wanted, there are none of these yet.
    run = pbt.ray.run(tiny.model, cases, out, part=3, resume=True)
    assert run["counts"]["resumed"] == 0 and (out / "p3.json").is_file()


def test_an_image_that_takes_its_process_along_is_a_failed_case(two_cpus, tiny, tmp_path):
    shutil.copy(tiny.image, tmp_path / "deadly.nii.gz")
    rows = [f"p{n},{tiny.folder / f'c{n}.nii.gz'}\n" for n in range(4)]
    rows.insert(2, "deadly,deadly.nii.gz\n")
    (tmp_path / "list.csv").write_text("case_id,path\n" + "".join(rows))
    # With two threads its neighbour is lost along with it the first time.
    run = pbt.ray.run(tiny.model, tmp_path / "list.csv", tmp_path / "out", cpus=2)
    assert [case["case_id"] for case in run["failed"]] == ["deadly"], run["failed"]
    assert "ended 2 times" in run["failed"][0]["reason"]
    assert run["counts"] == {"cases": 5, "detected": 4, "resumed": 0, "failed": 1}
    assert run["device"]["threads"] == 2
    assert table(tmp_path / "out")["case_id"].to_pylist() == ["p0", "p1", "deadly", "p2", "p3"]
    assert list(times(tmp_path / "out")) == ["000000.parquet"]


def test_without_paths(two_cpus, tiny, cases, tmp_path):
    out = tmp_path / "out"
    run = pbt.ray.run(tiny.model, cases, out, no_paths=True, labels=True)
    shown = json.dumps([run, table(out).to_pylist()]) + (out / "p3.json").read_text()
    assert str(tmp_path) not in shown and str(tiny.folder) not in shown
    assert [f["path"] for f in run["failed"]] == ["", ""]
    assert all(f["reason"].startswith(("file: ", "sizeof_hdr: ")) for f in run["failed"]), run["failed"]
    assert (out / "p3.pbt.seg.nrrd").is_file()
    # What has paths is made again where none are wanted.
    pbt.ray.run(tiny.model, cases, out)
    assert str(tiny.folder) in (out / "p3.json").read_text()
    run = pbt.ray.run(tiny.model, cases, out, no_paths=True, resume=True)
    assert run["counts"]["resumed"] == 0 and str(tiny.folder) not in (out / "p3.json").read_text()


def test_detection_as_a_step_of_a_pipeline(two_cpus, tiny, cases, command, tmp_path):
    command("batch", "-m", tiny.model, "-i", cases, "-o", tmp_path / "a", code=3)
    rows = pbt.ray.read_cases(cases).map_batches(
        pbt.ray.Detector,
        fn_constructor_args=[str(tiny.model)],
        compute=ray.data.ActorPoolStrategy(size=1),
        num_cpus=2,
        batch_size=4,
    )
    rows = rows.to_pandas().sort_values("case_id", ignore_index=True)
    theirs = table(tmp_path / "a").to_pandas().sort_values("case_id", ignore_index=True)
    assert list(rows.columns) == list(theirs.columns)
    for column in rows.columns:
        if theirs[column].dtype == np.float64:
            np.testing.assert_array_equal(rows[column].astype(float), theirs[column])
        else:
            assert rows[column].fillna("").tolist() == theirs[column].fillna("").tolist(), column


def test_files_of_further_channels_are_no_cases(two_cpus, command, tmp_path):
    folder = Path(os.environ["PBT_TWO_CHANNELS"])
    images = tmp_path / "images"
    images.mkdir()
    for n in range(2):
        shutil.copy(folder / f"c7_{n:04}.nii.gz", images)
    command("batch", "-m", folder / "two.pbt", "-i", images, "-o", tmp_path / "a")
    run = pbt.ray.run(folder / "two.pbt", images, tmp_path / "b")
    assert run["counts"]["cases"] == 1 and table(tmp_path / "b").equals(table(tmp_path / "a"))
    assert pbt.ray.read_cases(images, channels=2).count() == 1


def test_cases_as_tables_have_them():
    row = {"case_id": 7, "path": "a.nii", "series": float("nan"), "frame": 3.0, "age": 44}
    assert Case.of(row) == Case("7", "a.nii", None, 3)
    row = {"case_id": "b", "path": "b", "series": "4.1", "frame": pandas.NA}
    assert Case.of(row) == Case("b", "b", "4.1", None)


def test_what_ends_a_run(two_cpus, tiny, cases, tmp_path):
    with pytest.raises(pbt.ModelError):
        pbt.ray.run(tiny.config, cases, tmp_path / "out")
    with pytest.raises(pbt.InputError, match="there is no `path`"):
        (tmp_path / "wrong.csv").write_text("case_id\na\n")
        pbt.ray.run(tiny.model, tmp_path / "wrong.csv", tmp_path / "out")
    for wrong in [{"part": 0}, {"cpus": 0}, {"actors": 0}, {"gpus": -1}, {"cpus": 3}]:
        with pytest.raises(pbt.UsageError, match=next(iter(wrong))):
            pbt.ray.run(tiny.model, cases, tmp_path / "out", **wrong)
    with pytest.raises(pbt.DeviceError, match="gpus"):
        pbt.ray.run(tiny.model, cases, tmp_path / "out", gpus=2)
    (tmp_path / "file").write_text("")
    with pytest.raises(pbt.Error, match="file: cannot be written"):
        pbt.ray.run(tiny.model, cases, tmp_path / "file")


def test_what_ends_a_run_in_an_actor(two_cpus, tiny, cases, tmp_path):
    part = tmp_path / "out" / "parts" / "000000.parquet"
    part.mkdir(parents=True)
    with pytest.raises(pbt.Error, match="000000.parquet: file: cannot be written"):
        pbt.ray.run(tiny.model, cases, tmp_path / "out", resume=True)
    # Ray believes that there is a GPU.
    if not Path("/dev/nvidia0").exists():
        with pytest.raises(pbt.DeviceError):
            pbt.ray.run(tiny.model, cases, tmp_path / "out", gpus=1)
    with pytest.raises(pbt.ModelError, match="sha256"):
        pbt.ray.Detector(tiny.model, sha256="0" * 64)


def test_the_command_has_a_ray_of_its_own(tiny, cases, command, tmp_path):
    script = Path(sys.executable).with_name("pbt-ray")

    def ours(*arguments):
        return subprocess.run([script, *map(str, arguments)], capture_output=True, text=True)

    command("batch", "-m", tiny.model, "-i", cases, "-o", tmp_path / "a", code=3)
    done = ours("-m", tiny.model, "-i", cases, "-o", tmp_path / "b", "--actors", 1)
    assert done.returncode == 3 and done.stdout == "", done.stderr
    assert "error: case junk: " in done.stderr and "9 cases: 7 done, 2 failed" in done.stderr
    assert "Traceback" not in done.stderr
    assert table(tmp_path / "b").equals(table(tmp_path / "a"))
    for arguments, code in [
        (["-m", tiny.model], 2),
        (["-m", tiny.model, "-i", tmp_path / "none.csv", "-o", tmp_path / "c"], 4),
        (["-m", tiny.config, "-i", cases, "-o", tmp_path / "c"], 5),
    ]:
        assert ours(*arguments).returncode == code
    assert not (tmp_path / "c").exists()
