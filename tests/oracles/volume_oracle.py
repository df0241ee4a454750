"""Expected values for crates/volume/tests/simpleitk.rs: linear resampling by SimpleITK, world coordinates and axes by nibabel.

Usage: volume_oracle.py FOLDER. Reads FOLDER/request.json (a list of cases, each with the shape and LPS affine of an image and of a
target grid) and FOLDER/image-N.raw (u16, little-endian, i fastest); writes FOLDER/expected-N.raw (f64, little-endian, i fastest) and
FOLDER/answer.json.
"""

import json
import pathlib
import sys

import nibabel
import numpy as np
import SimpleITK as sitk

LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])


def place(image, affine_lps):
    """Gives a SimpleITK image its LPS affine."""
    spacing = np.linalg.norm(affine_lps[:3, :3], axis=0)
    image.SetSpacing(spacing.tolist())
    image.SetDirection((affine_lps[:3, :3] / spacing).ravel().tolist())
    image.SetOrigin(affine_lps[:3, 3].tolist())
    return image


def main(folder):
    answers = []
    for number, case in enumerate(json.loads((folder / "request.json").read_text())):
        affine, target = np.array(case["affine_lps"]), np.array(case["target_affine_lps"])
        voxels = np.fromfile(folder / f"image-{number}.raw", "<u2").reshape(case["shape"], order="F")
        image = place(sitk.GetImageFromArray(voxels.T), affine)
        grid = place(sitk.Image(case["target_shape"], sitk.sitkUInt8), target)
        expected = sitk.Resample(image, grid, sitk.Transform(), sitk.sitkLinear, 0.0, sitk.sitkFloat64)
        sitk.GetArrayFromImage(expected).astype("<f8").tofile(folder / f"expected-{number}.raw")

        nifti = nibabel.Nifti1Image(voxels, LPS_TO_RAS @ affine)
        # Canonical for nibabel is closest to RAS, for us closest to LPS: turn the first two axes round to compare.
        flips = np.array([[0, -1], [1, -1], [2, 1]])
        canonical = nibabel.as_closest_canonical(nifti).as_reoriented(flips)
        corner = nibabel.affines.apply_affine(nifti.affine, np.array(case["shape"]) - 1) @ LPS_TO_RAS[:3, :3]
        answers.append({
            "axes_lps": (LPS_TO_RAS @ canonical.affine)[:3, :3].tolist(),
            "shape": canonical.shape,
            "last_voxel_lps": corner.tolist(),
        })
    (folder / "answer.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
