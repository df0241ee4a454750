"""What nibabel and SimpleITK make of image files, for tests/oracle.rs.

usage: oracle.py OUT FILE...   writes OUT/N.txt (reader, affine in LPS by rows, shape) and OUT/N.f32 (voxels, i fastest) for the Nth file.
"""

import sys

import nibabel
import numpy
import SimpleITK


def by_nibabel(path):
    image = nibabel.load(path)
    voxels = image.get_fdata()
    return numpy.diag([-1.0, -1.0, 1.0, 1.0]) @ image.affine, voxels.reshape(voxels.shape[:3])


def by_simpleitk(path):
    image = SimpleITK.ReadImage(path)
    affine = numpy.eye(4)
    affine[:3, :3] = numpy.reshape(image.GetDirection(), (3, 3)) @ numpy.diag(image.GetSpacing())
    affine[:3, 3] = image.GetOrigin()
    return affine, SimpleITK.GetArrayFromImage(image).transpose()


for number, path in enumerate(sys.argv[2:]):
    nifti = path.endswith((".nii", ".nii.gz"))
    affine, voxels = (by_nibabel if nifti else by_simpleitk)(path)
    with open(f"{sys.argv[1]}/{number}.txt", "w") as text:
        print(*(repr(float(v)) for v in affine.flatten()), *voxels.shape, file=text)
    numpy.asarray(voxels, dtype="<f4").flatten(order="F").tofile(f"{sys.argv[1]}/{number}.f32")
