"""Two blob detectors of scikit-image on the embryo nuclei, by the measure of `pbt evaluate`: a detection is right when it lies within
a quarter of the mean size of a nucleus, one to one.

usage: nuclei.py EMBRYO_NUCLEI_FOLDER REPORT.json
REPORT.json is `pbt evaluate -m MODEL -i EMBRYO_NUCLEI_FOLDER -o REPORT.json`: it has the tolerance of every nucleus of the test images.
Both methods choose their settings by F1 on the training images.
"""

import itertools
import json
import pathlib
import sys

import nibabel
import numpy
import scipy.ndimage as ndi
from skimage.feature import blob_log, peak_local_max
from skimage.filters import gaussian, threshold_otsu
from skimage.segmentation import watershed

SPACING = numpy.array([0.8, 0.8, 1.75])


def watershed_centres(image, sigma, distance_um):
    """Otsu's threshold, then a watershed of the distance transform; centroids."""
    smooth = gaussian(image, sigma / SPACING)
    mask = smooth > threshold_otsu(smooth)
    depth = gaussian(ndi.distance_transform_edt(mask, sampling=SPACING), 1.0 / SPACING)
    peaks = peak_local_max(depth, min_distance=max(1, round(distance_um / SPACING[0])), labels=ndi.label(mask)[0])
    markers = numpy.zeros(image.shape, int)
    markers[tuple(peaks.T)] = numpy.arange(1, len(peaks) + 1)
    labels = watershed(-depth, markers, mask=mask)
    count = labels.max()
    return numpy.array(ndi.center_of_mass(labels > 0, labels, range(1, count + 1))).reshape(-1, 3) * SPACING


def log_centres(image, sigma, threshold):
    """Laplacians of Gaussians on an isotropic grid, the image scaled to 0 to 1 by its percentiles."""
    scaled = ndi.zoom(image, SPACING / 1.75, order=1)
    low, high = numpy.percentile(scaled, [1, 99.8])
    scaled = numpy.clip((scaled - low) / (high - low), 0, 1)
    # Nuclei are twice as long along z.
    sigmas = numpy.array([sigma, sigma, 1.7 * sigma]) / 1.75
    blobs = blob_log(scaled, min_sigma=0.8 * sigmas, max_sigma=1.25 * sigmas, num_sigma=3, threshold=threshold, overlap=0.3)
    return blobs[:, :3] * 1.75


def hits(centres, truths):
    """Right detections; each takes the nearest nucleus that is left and near enough."""
    taken = set()
    for centre in centres:
        near = [(numpy.linalg.norm(centre - at), n) for n, (at, mm) in enumerate(truths) if n not in taken]
        near = [(off, n) for off, n in near if off <= truths[n][1]]
        if near:
            taken.add(min(near)[1])
    return len(taken)


def figures(method, settings, cases):
    right = found = annotated = 0
    errors = []
    for image, truths in cases:
        centres = method(image, *settings)
        right, found, annotated = right + hits(centres, truths), found + len(centres), annotated + len(truths)
        errors.append(100 * abs(len(centres) - len(truths)) / len(truths))
    return 2 * right / max(1, found + annotated), right / annotated, right / max(1, found), numpy.mean(errors)


def main(folder, report):
    folder = pathlib.Path(folder)
    cases = json.loads((folder / "dataset.json").read_text())["cases"]
    known = {}
    for record in json.loads(pathlib.Path(report).read_text())["records"]:
        if record["truth"] == "present":
            known.setdefault(record["case"], []).append(record["tolerance_mm"])
    read = {"train": [], "test": []}
    for case in cases:
        image = numpy.asarray(nibabel.load(folder / case["image"]).dataobj, numpy.float32)
        labels = numpy.asarray(nibabel.load(folder / case["labels"]).dataobj)
        truths = []
        for n, (value, box) in enumerate((v + 1, b) for v, b in enumerate(ndi.find_objects(labels)) if b):
            centre = (numpy.argwhere(labels[box] == value).mean(0) + [s.start for s in box]) * SPACING
            extent = [(s.stop - s.start) * mm for s, mm in zip(box, SPACING)]
            tolerance = known[case["id"]][n] if case["split"] == "test" else numpy.cbrt(numpy.prod(extent)) / 4
            truths.append((centre, tolerance))
        read[case["split"]].append((image, truths))
    methods = {
        "distance-transform watershed": (watershed_centres, itertools.product([1.0, 2.0], [4.0, 6.0, 8.0])),
        "Laplacian of Gaussians": (log_centres, itertools.product([3.0, 4.0, 5.0], [0.05, 0.1, 0.2])),
    }
    for name, (method, grid) in methods.items():
        best = max(grid, key=lambda settings: figures(method, settings, read["train"][::3])[0])
        f1, recall, precision, error = figures(method, best, read["test"])
        print(f"{name} {best}: F1 {f1:.3f}, recall {recall:.3f}, precision {precision:.3f}, count error {error:.1f} %", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
