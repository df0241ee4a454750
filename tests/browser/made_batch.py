"""Makes folders as `pbt batch` writes them, of images that are known to the voxel, without a model.

Each image has a bright cube at a place that is stated in LPS mm, and the result says a box around it: what a viewer
shows there can be compared with what was made.
"""

import gzip
import hashlib
import json
import struct
import zlib
from pathlib import Path

HOSTILE = '"><script>alert(1)</script>'
CUBE_MM = 16.0


def times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def nifti(path, shape, affine_lps, value, kind="h"):
    """Writes value(i, j, k, [x, y, z]) for each voxel; the file's axes are RAS."""
    rows = [[-v for v in affine_lps[0]], [-v for v in affine_lps[1]], affine_lps[2]]
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, 3, *shape, 1, 1, 1, 1)
    struct.pack_into("<2h", header, 70, 4 if kind == "h" else 512, 16)
    spacing = [sum(rows[r][c] ** 2 for r in range(3)) ** 0.5 for c in range(3)]
    struct.pack_into("<8f", header, 76, 1, *spacing, 1, 1, 1, 1)
    struct.pack_into("<2f", header, 108, 352, 1)
    header[123] = 2
    struct.pack_into("<2h", header, 252, 0, 1)
    struct.pack_into("<12f", header, 280, *[v for row in rows for v in row])
    header[344:348] = b"n+1\0"
    voxels = [
        value([row[3] + row[0] * i + row[1] * j + row[2] * k for row in affine_lps])
        for k in range(shape[2])
        for j in range(shape[1])
        for i in range(shape[0])
    ]
    path.write_bytes(gzip.compress(bytes(header) + struct.pack(f"<{len(voxels)}{kind}", *voxels), 6, mtime=0))


def png(path, width, height, value):
    rows = b"".join(b"\0" + bytes(value(x, y) for x in range(width)) for y in range(height))
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    head = struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def result(case, image, shape, affine, detections, pixels=False):
    spacing = [sum(affine[r][c] ** 2 for r in range(3)) ** 0.5 for c in range(3)]
    sha256 = hashlib.sha256(image.read_bytes()).hexdigest() if image else "0" * 64
    return {
        "schema": "pbt-result/1",
        "case_id": case,
        "coordinate_system": "pixel" if pixels else "LPS",
        "input": {"sha256": sha256, "shape": shape, "spacing_mm": spacing, "affine_lps": [*affine, [0.0, 0.0, 0.0, 1.0]]},
        "model": {"name": "made", "sha256": "1" * 64, "version": "0.1.0"},
        "detections": detections,
        "warnings": [],
        "run": {
            "pbt_version": "0.1.0",
            "device": {"kind": "cpu", "name": "none", "threads": 1},
            "input_path": str(image) if image else "",
            "model_path": "",
            "options": {},
            "timing_ms": {"total": 1.0},
        },
    }


def box(name, center, status="found", score=0.9, edges=(CUBE_MM,) * 3, matrix=None):
    matrix = matrix or [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    w = max(1e-9, 1.0 + matrix[0][0] + matrix[1][1] + matrix[2][2]) ** 0.5 / 2.0
    turned = [(matrix[2][1] - matrix[1][2]), (matrix[0][2] - matrix[2][0]), (matrix[1][0] - matrix[0][1])]
    quaternion = [w, *(v / (4.0 * w) for v in turned)]
    orientation = {"matrix": matrix, "quaternion_wxyz": quaternion}
    return {"name": name, "kind": "box", "status": status, "score": score, "position_lps_mm": list(center),
            "orientation": orientation, "size_mm": list(edges)}


def point(name, position, status="found", score=0.9):
    return {"name": name, "kind": "landmark", "status": status, "score": score, "position_lps_mm": list(position),
            "orientation": None, "size_mm": None}


def absent(name):
    return {"name": name, "kind": "box", "status": "absent", "score": 0.03, "position_lps_mm": None, "orientation": None,
            "size_mm": None}


def cube(position, center, half=CUBE_MM / 2):
    return max(abs(p - c) for p, c in zip(position, center)) <= half


def in_frame(position, center, matrix):
    """The position along the axes (columns) of a rotation."""
    off = [p - c for p, c in zip(position, center)]
    return times([list(column) for column in zip(*matrix)], off)


TURNED = [[0.866025403784, -0.5, 0.0], [0.5, 0.866025403784, 0.0], [0.0, 0.0, 1.0]]
# The patient's left, front and top of a head that is 80 mm wide: from it, sides cannot be mixed up.
CENTER = (18.0, -14.0, 22.0)
# Columns go right to left, front to back, down to up in turn, or against it.
GRIDS = {
    "as in DICOM": ([40, 44, 30], [[2.0, 0.0, 0.0, -39.0], [0.0, 2.0, 0.0, -43.0], [0.0, 0.0, 3.0, -43.5]]),
    "as in NIfTI": ([40, 44, 30], [[-2.0, 0.0, 0.0, 39.0], [0.0, -2.0, 0.0, 43.0], [0.0, 0.0, 3.0, -43.5]]),
    "sagittal": ([44, 30, 40], [[0.0, 0.0, 2.0, -39.0], [2.0, 0.0, 0.0, -43.0], [0.0, -3.0, 0.0, 43.5]]),
    "oblique": ([40, 44, 30], [[1.9, 0.624, 0.0, -50.0], [-0.624, 1.9, 0.0, -29.0], [0.0, 0.0, 3.0, -43.5]]),
}


def made(folder):
    """A batch of all kinds of cases; returns where it is."""
    images, found = folder / "images", folder / "found"
    images.mkdir(parents=True, exist_ok=True)
    found.mkdir(exist_ok=True)
    write = lambda name, value: (found / f"{name}.json").write_text(json.dumps(value))
    for name, (shape, affine) in GRIDS.items():
        image = images / f"{name.replace(' ', '_')}.nii.gz"
        # A dim head, brighter to the front, so that slices look like something; the cube is brightest.
        head = lambda p: sum((v / r) ** 2 for v, r in zip(p, (36.0, 40.0, 41.0))) < 1.0
        nifti(image, shape, affine, lambda p: 1000 if cube(p, CENTER) else int(300 - 2 * p[1]) if head(p) else 0)
        detections = [
            box("cube", CENTER),
            point("tip", (CENTER[0], CENTER[1] - CUBE_MM, CENTER[2]), score=0.95),
            box("turned", (-16.0, 14.0, -10.0), "doubtful", 0.4, (24.0, 12.0, 16.0), TURNED),
            absent("not there"),
        ]
        write(name, result(name, image, shape, affine, detections))
    shape, affine = GRIDS["as in NIfTI"]
    image = images / "labelled.nii.gz"
    nifti(image, shape, affine, lambda p: 400 - int(2 * p[2]) if cube(p, (0, 0, 0), 34) else 0)
    labels = lambda p: 3 if cube(p, CENTER) else 700 if cube(p, (-CENTER[0], 14.0, -10.0)) else 0
    nifti(found / "labelled.labels.nii.gz", shape, affine, labels, "H")
    segments = {0: ("the cube", 3), 1: (HOSTILE, 700)}
    header = "NRRD0004\n" + "".join(f"Segment{n}_Name:={name}\nSegment{n}_LabelValue:={value}\n" for n, (name, value) in segments.items())
    (found / "labelled.pbt.seg.nrrd").write_text(header + "\n")
    write("labelled", result("labelled", image, shape, affine, [box("cube", CENTER)]))
    write("hostile", result(HOSTILE, image, shape, affine, [box(HOSTILE, CENTER, "doubtful", 0.3)]))
    flat = images / "wing.png"
    png(flat, 160, 100, lambda x, y: 250 if abs(x - 120) < 6 and abs(y - 25) < 6 else 40 + y)
    affine = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    wing = [point("corner", (120.0, 25.0, 0.0)), point("other", (30.0, 80.0, 0.0), "doubtful", 0.45)]
    write("wing", result("wing", flat, [160, 100, 1], affine, wing, pixels=True))
    write("gone", result("gone", images / "wing.png", *GRIDS["oblique"], [box("cube", CENTER)]) | {"case_id": "gone"})
    gone = json.loads((found / "gone.json").read_text())
    gone["run"]["input_path"] = str(images / "gone.nii.gz")
    write("gone", gone)
    (found / "run.json").write_text(json.dumps({"failed": [{"case_id": "cut", "reason": "the file ends too early"}]}))
    return found


def many(folder, cases=1000, structures=7):
    """A batch of many cases of one image."""
    found = made(folder)
    like = json.loads((found / "as in NIfTI.json").read_text())
    for n in range(cases - 9):
        like["case_id"] = f"case {n:04}"
        like["detections"] = [box(f"structure {s}", CENTER, score=0.5 + (n * 7 + s) % 50 / 100) for s in range(structures)]
        (found / f"case {n:04}.json").write_text(json.dumps(like))
    return found


if __name__ == "__main__":
    import sys

    print(made(Path(sys.argv[1])))
