"""DICOM series made by pydicom, for tests/dicom_made.rs.

usage: dicom_make.py OUT   writes OUT/NAME (a folder, file or zip) and OUT/NAME.json for each case: either {"refuse": WORD} or the LPS affine
(rows), the shape and the values (i fastest) that a reader should arrive at, with the options to give.
"""

import json
import pathlib
import random
import sys
import zipfile

import numpy
import pydicom
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import (
    CTImageStorage,
    DeflatedExplicitVRLittleEndian,
    EnhancedCTImageStorage,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    RLELossless,
    SecondaryCaptureImageStorage,
    generate_uid,
)

OUT = pathlib.Path(sys.argv[1])
ROWS, COLUMNS, SLICES = 6, 5, 7
ROW_MM, COLUMN_MM = 0.7, 1.3
NAME = "Mustermann^Erika"
random.seed(5)
numbers = numpy.random.default_rng(5)


def text(value):
    """A decimal string, which may have 16 characters."""
    return pydicom.valuerep.DSfloat(value, auto_format=True)


def rotation():
    q, _ = numpy.linalg.qr(numpy.array([[0.9, 0.2, -0.1], [0.1, 0.8, 0.5], [0.3, -0.4, 0.7]]))
    return q * numpy.sign(numpy.linalg.det(q))


AXES = rotation()
NORMAL = numpy.cross(AXES[:, 0], AXES[:, 1])
ORIGIN = numpy.array([-71.5, 33.25, 812.125])


def dataset(position, pixels, signed=False, stored=16, series="1.2.3.4", instance=1, **extra):
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=[str(random.random())])
    ds = FileDataset("x", {}, file_meta=meta, preamble=b"\0" * 128)
    ds.SOPClassUID = CTImageStorage
    ds.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    ds.PatientName, ds.PatientID, ds.PatientBirthDate = NAME, "ID-4711", "19700101"
    ds.Modality, ds.SeriesInstanceUID, ds.SeriesNumber, ds.InstanceNumber = "CT", series, 4, instance
    ds.SeriesDescription = "head " + NAME
    ds.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
    ds.ImagePositionPatient = [text(v) for v in position]
    ds.ImageOrientationPatient = [text(v) for v in [*AXES[:, 0], *AXES[:, 1]]]
    ds.PixelSpacing = [text(ROW_MM), text(COLUMN_MM)]
    ds.Rows, ds.Columns, ds.SamplesPerPixel, ds.PhotometricInterpretation = ROWS, COLUMNS, 1, "MONOCHROME2"
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 8 * pixels.dtype.itemsize, stored, stored - 1, int(signed)
    ds.PixelData = pixels.tobytes()
    for key, value in extra.items():
        setattr(ds, key, value)
    return ds


def save(ds, path, syntax=ExplicitVRLittleEndian):
    path.parent.mkdir(parents=True, exist_ok=True)
    if syntax == ExplicitVRBigEndian:
        ds.PixelData = numpy.frombuffer(ds.PixelData, dtype="<u2").astype(">u2").tobytes()
    if syntax == RLELossless:
        ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        ds.compress(RLELossless)
    ds.file_meta.TransferSyntaxUID = syntax
    ds["PixelData"].VR = "OB" if syntax == RLELossless else "OW"
    if syntax == RLELossless:
        ds["PixelData"].is_undefined_length = True
    # Unlike the data set's own method, this lets a data set become big-endian.
    pydicom.dcmwrite(path, ds, enforce_file_format=True)


def affine(step):
    matrix = numpy.eye(4)
    matrix[:3, 0], matrix[:3, 1], matrix[:3, 2], matrix[:3, 3] = AXES[:, 0] * COLUMN_MM, AXES[:, 1] * ROW_MM, step, ORIGIN
    return matrix


def expect(name, values, step, **options):
    """values: [k, row, column]."""
    facts = {"affine": affine(step).flatten().tolist(), "shape": list(values.shape[::-1]), "values": values.flatten().tolist(), **options}
    (OUT / f"{name}.json").write_text(json.dumps(facts))


def refuse(name, word, **options):
    (OUT / f"{name}.json").write_text(json.dumps({"refuse": word, **options}))


def voxels(kind="<u2", low=0, high=4096, slices=SLICES):
    return numbers.integers(low, high, (slices, ROWS, COLUMNS)).astype(kind)


def order():
    names = list(range(SLICES))
    random.shuffle(names)
    return names


STEP = NORMAL * 2.5
# Names, instance numbers and places in three different orders; the affine comes from the places alone.
for name, syntax in [
    ("explicit", ExplicitVRLittleEndian),
    ("implicit", ImplicitVRLittleEndian),
    ("big_endian", ExplicitVRBigEndian),
    ("deflated", DeflatedExplicitVRLittleEndian),
    ("rle", RLELossless),
]:
    stored, names, instances = voxels(), order(), order()
    for k in range(SLICES):
        save(dataset(ORIGIN + k * STEP, stored[k], instance=instances[k]), OUT / name / f"{names[k]}.dcm", syntax)
    expect(name, stored, STEP)

# Slopes and intercepts of each slice, as in PET.
stored = voxels()
slopes = [0.5 + 0.125 * k for k in range(SLICES)]
for k in range(SLICES):
    save(dataset(ORIGIN + k * STEP, stored[k], RescaleSlope=text(slopes[k]), RescaleIntercept=text(-k)), OUT / "slopes" / f"{k}")
expect("slopes", stored * numpy.array(slopes)[:, None, None] - numpy.arange(SLICES)[:, None, None], STEP)

# CT: stored from 0, real from -1024.
stored = voxels()
for k in range(SLICES):
    save(dataset(ORIGIN + k * STEP, stored[k], stored=12, RescaleSlope="1", RescaleIntercept="-1024"), OUT / "ct" / f"{k}.ima")
expect("ct", stored.astype(int) - 1024, STEP)

# Twelve signed bits, with an overlay in the bits above.
stored = voxels("<i2", -2048, 2048)
for k in range(SLICES):
    dirty = (stored[k].view("<u2") & 0x0FFF) | numpy.uint16(0x5000)
    save(dataset(ORIGIN + k * STEP, dirty, signed=True, stored=12), OUT / "signed_12_bit" / f"{k}.dcm")
expect("signed_12_bit", stored, STEP)

for name, kind, low, high, signed in [("bytes", "u1", 0, 256, False), ("signed_16_bit", "<i2", -32768, 32768, True), ("wide", "<u4", 0, 2**32, False)]:
    stored = voxels(kind, low, high)
    bits = 8 * stored.dtype.itemsize
    for k in range(SLICES):
        save(dataset(ORIGIN + k * STEP, stored[k], signed=signed, stored=bits), OUT / name / f"{k}.dcm")
    expect(name, stored, STEP)

# A gantry tilt: the step is not along the normal.
stored = voxels()
tilted = NORMAL * 2.5 + AXES[:, 1] * 0.8
for k in range(SLICES):
    save(dataset(ORIGIN + k * tilted, stored[k]), OUT / "tilt" / f"{k}.dcm")
expect("tilt", stored, tilted)

# The same file twice, under another name; a localizer, a screenshot, a report and a text file beside the series.
stored = voxels()
for k in range(SLICES):
    ds = dataset(ORIGIN + k * STEP, stored[k])
    save(ds, OUT / "company" / f"{k}.dcm")
    if k == 3:
        save(ds, OUT / "company" / "deep" / "er" / "copy.dcm")
save(dataset(ORIGIN, stored[0], ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"]), OUT / "company" / "scout.dcm")
save(dataset(ORIGIN, stored[0], SOPClassUID=SecondaryCaptureImageStorage, series="9.9"), OUT / "company" / "shot.dcm")
report = dataset(ORIGIN, stored[0], series="8.8")
del report.PixelData
report.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
pydicom.dcmwrite(OUT / "company" / "report.dcm", report, enforce_file_format=True)
(OUT / "company" / "notes.txt").write_text("not DICOM")
expect("company", stored, STEP)

# The same as a zip archive.
with zipfile.ZipFile(OUT / "company.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    for path in sorted((OUT / "company").rglob("*"), reverse=True):
        archive.write(path, path.relative_to(OUT))
expect("company.zip", stored, STEP)

# Two series; two orientations of one series; time points.
for n in range(2):
    stored = voxels()
    for k in range(SLICES):
        save(dataset(ORIGIN + k * STEP, stored[k], series=f"1.2.{n}", SeriesNumber=4 + n), OUT / "two_series" / f"{n}{k}.dcm")
refuse("two_series", "--series 4")
(OUT / "two_series.second.json").write_text(
    json.dumps({"path": "two_series", "series": "5", "affine": affine(STEP).flatten().tolist(), "shape": [COLUMNS, ROWS, SLICES], "values": stored.flatten().tolist()})
)
refuse("two_series.third", "4 (CT", path="two_series", series="6")

stored = voxels()
for k in range(SLICES):
    save(dataset(ORIGIN + k * STEP, stored[k], instance=k), OUT / "two_orientations" / f"{k}.dcm")
    turned = [text(v) for v in [*AXES[:, 1], *AXES[:, 2]]]
    save(dataset(ORIGIN + k * STEP, stored[k], instance=k + 50, ImageOrientationPatient=turned), OUT / "two_orientations" / f"t{k}.dcm")
refuse("two_orientations", "4.1")
(OUT / "two_orientations.first.json").write_text(
    json.dumps({"path": "two_orientations", "series": "4.1", "affine": affine(STEP).flatten().tolist(), "shape": [COLUMNS, ROWS, SLICES], "values": stored.flatten().tolist()})
)

stored = [voxels() for _ in range(3)]
for t in range(3):
    for k in range(SLICES):
        save(dataset(ORIGIN + k * STEP, stored[t][k], instance=1 + k * 3 + t, AcquisitionNumber=1 + t), OUT / "time_points" / f"{2 - t}{k}.dcm")
refuse("time_points", "--frame 0 to 2")
(OUT / "time_points.last.json").write_text(
    json.dumps({"path": "time_points", "frame": 2, "affine": affine(STEP).flatten().tolist(), "shape": [COLUMNS, ROWS, SLICES], "values": stored[2].flatten().tolist()})
)
refuse("time_points.none", "no frame 3", path="time_points", frame=3)

# What must be refused.
stored = voxels()
for name, word, place in [
    ("missing_slice", "lacks 1 slice", lambda k: k + (k > 3)),
    ("uneven", "uneven", lambda k: k + 0.3 * (k == 3)),
    ("sliding", "unevenly", None),
]:
    for k in range(SLICES):
        position = ORIGIN + place(k) * STEP if place else ORIGIN + k * STEP + AXES[:, 0] * (k == 4)
        save(dataset(position, stored[k]), OUT / name / f"{k}.dcm")
    refuse(name, word)
for k in range(SLICES):
    save(dataset(ORIGIN + k * STEP, stored[k]), OUT / "half_copied" / f"{k}.dcm")
save(dataset(ORIGIN + 2 * STEP, stored[2]), OUT / "half_copied" / "again.dcm")
refuse("half_copied", "at another")
for k in range(SLICES):
    for n in range(2):
        save(dataset(ORIGIN + k * STEP, stored[k]), OUT / "all_copied" / f"{n}{k}.dcm")
refuse("all_copied", "same instance number")
save(dataset(ORIGIN, stored[0]), OUT / "alone.dcm")
expect("alone.dcm", stored[:1], NORMAL * (ROW_MM * COLUMN_MM) ** 0.5)
for name, change, word in [
    ("no_position", lambda ds: delattr(ds, "ImagePositionPatient"), "(0020,0032) ImagePositionPatient"),
    ("no_orientation", lambda ds: delattr(ds, "ImageOrientationPatient"), "(0020,0037) ImageOrientationPatient"),
    ("no_spacing", lambda ds: delattr(ds, "PixelSpacing"), "(0028,0030) PixelSpacing"),
    ("skewed", lambda ds: setattr(ds, "ImageOrientationPatient", [1, 0, 0, 0.5, 1, 0]), "right angle"),
    ("zero_slope", lambda ds: setattr(ds, "RescaleSlope", "0"), "RescaleSlope"),
    ("cut", lambda ds: setattr(ds, "PixelData", ds.PixelData[:40]), "(7FE0,0010) PixelData"),
    ("colour", lambda ds: (setattr(ds, "SamplesPerPixel", 3), setattr(ds, "PhotometricInterpretation", "RGB")), "colour"),
    ("bits", lambda ds: setattr(ds, "BitsStored", 17), "BitsStored"),
]:
    for k in range(SLICES):
        ds = dataset(ORIGIN + k * STEP, stored[k])
        if k == 3 or name == "colour":
            change(ds)
        save(ds, OUT / name / f"{k}.dcm")
    refuse(name, word)

# Enhanced multi-frame: frames in any order, position by frame, the rest shared.
stored, frames = voxels(), order()
ds = dataset(ORIGIN, stored[frames], SOPClassUID=EnhancedCTImageStorage, NumberOfFrames=SLICES)
for key in ["ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing"]:
    delattr(ds, key)
shared, orientation, measures, values = Dataset(), Dataset(), Dataset(), Dataset()
orientation.ImageOrientationPatient = [text(v) for v in [*AXES[:, 0], *AXES[:, 1]]]
measures.PixelSpacing = [text(ROW_MM), text(COLUMN_MM)]
values.RescaleSlope, values.RescaleIntercept = "2", "-7"
shared.PlaneOrientationSequence, shared.PixelMeasuresSequence = Sequence([orientation]), Sequence([measures])
shared.PixelValueTransformationSequence = Sequence([values])
ds.SharedFunctionalGroupsSequence = Sequence([shared])
groups = []
for k in frames:
    group, position, content = Dataset(), Dataset(), Dataset()
    position.ImagePositionPatient = [text(v) for v in ORIGIN + k * STEP]
    content.StackID, content.InStackPositionNumber = "1", int(k) + 1
    group.PlanePositionSequence, group.FrameContentSequence = Sequence([position]), Sequence([content])
    groups.append(group)
ds.PerFrameFunctionalGroupsSequence = Sequence(groups)
save(ds, OUT / "enhanced.dcm")
expect("enhanced.dcm", stored.astype(int) * 2 - 7, STEP)
