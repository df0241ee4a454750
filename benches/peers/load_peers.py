"""SimpleITK reading a DICOM series and nibabel reading a NIfTI file, for load.sh.

usage: load_peers.py make FOLDER            a series of 384 slices of 512 x 512 pixels, 16 bits, uncompressed
       load_peers.py time N SERIES [NIFTI]  least and median milliseconds of N readings, voxels as float32
"""

import pathlib
import statistics
import sys
import time


def make(folder):
    import numpy
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    folder.mkdir(parents=True)
    numbers = numpy.random.default_rng(1)
    series, frame = generate_uid(), generate_uid()
    for k in range(384):
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID, meta.TransferSyntaxUID = CTImageStorage, ExplicitVRLittleEndian
        meta.MediaStorageSOPInstanceUID = generate_uid()
        ds = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
        ds.SOPClassUID, ds.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
        ds.Modality, ds.SeriesInstanceUID, ds.FrameOfReferenceUID, ds.SeriesNumber, ds.InstanceNumber = "CT", series, frame, 1, k + 1
        ds.StudyInstanceUID, ds.ImageType = "1.2.3", ["ORIGINAL", "PRIMARY", "AXIAL"]
        ds.ImagePositionPatient, ds.ImageOrientationPatient = [-250, -250, 0.8 * k], [1, 0, 0, 0, 1, 0]
        ds.PixelSpacing, ds.SliceThickness = [0.9765625, 0.9765625], 0.8
        ds.Rows = ds.Columns = 512
        ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
        ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 12, 11, 0
        ds.RescaleSlope, ds.RescaleIntercept = 1, -1024
        ds.PixelData = numbers.integers(0, 4096, (512, 512), dtype="u2").tobytes()
        ds["PixelData"].VR = "OW"
        # Names in no order, as scanners give them.
        ds.save_as(folder / f"{(k * 97) % 384:05d}.dcm", enforce_file_format=True)


def timed(name, times, read):
    milliseconds = []
    for _ in range(times):
        started = time.perf_counter()
        read()
        milliseconds.append((time.perf_counter() - started) * 1e3)
    print(f"{name}: least {min(milliseconds):.0f} ms, median {statistics.median(milliseconds):.0f} ms")


def read_series(folder):
    import SimpleITK

    reader = SimpleITK.ImageSeriesReader()
    reader.SetFileNames(SimpleITK.ImageSeriesReader.GetGDCMSeriesFileNames(folder))
    return SimpleITK.Cast(reader.Execute(), SimpleITK.sitkFloat32)


def read_nifti(path):
    import nibabel
    import numpy

    return nibabel.load(path).get_fdata(dtype=numpy.float32)


if sys.argv[1] == "make":
    make(pathlib.Path(sys.argv[2]))
else:
    count, series, *nifti = sys.argv[2:]
    timed(f"SimpleITK {series}", int(count), lambda: read_series(series))
    for path in nifti:
        timed(f"nibabel {path}", int(count), lambda: read_nifti(path))
