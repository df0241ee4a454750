"""DICOM series made of arrays, for tests."""

from pathlib import Path

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid


def write_series(
    folder: Path, voxels: np.ndarray, affine: np.ndarray, number: int = 1, study: str | None = None
) -> None:
    """Writes a CT series: voxels indexed [i, j, k], the affine to LPS mm with perpendicular axes."""
    folder.mkdir(parents=True, exist_ok=True)
    study, series, frame = study or generate_uid(), generate_uid(), generate_uid()
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    axes = affine[:3, :3] / spacing
    for k in range(voxels.shape[2]):
        image = Dataset()
        image.file_meta = FileMetaDataset()
        image.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        image.SOPClassUID = CTImageStorage
        image.SOPInstanceUID = generate_uid()
        image.StudyInstanceUID, image.SeriesInstanceUID = study, series
        image.FrameOfReferenceUID = frame
        image.PatientName, image.PatientID = "Phantom^Made", "made"
        image.PatientBirthDate = image.PatientSex = ""
        image.StudyDate, image.StudyTime = "20260101", "120000"
        image.StudyID, image.AccessionNumber, image.ReferringPhysicianName = "1", "", ""
        image.Modality, image.Manufacturer = "CT", "made"
        image.SeriesNumber, image.InstanceNumber = number, k + 1
        image.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
        image.PositionReferenceIndicator = ""
        image.ImagePositionPatient = [float(x) for x in (affine @ [0, 0, k, 1])[:3].round(6)]
        directions = np.concatenate([axes[:, 0], axes[:, 1]])
        image.ImageOrientationPatient = [float(x) for x in directions.round(9)]
        image.PixelSpacing = [float(spacing[1]), float(spacing[0])]
        image.SliceThickness = float(spacing[2])
        image.KVP = None
        image.AcquisitionNumber = 1
        image.Rows, image.Columns = voxels.shape[1], voxels.shape[0]
        image.SamplesPerPixel, image.PhotometricInterpretation = 1, "MONOCHROME2"
        image.BitsAllocated, image.BitsStored, image.HighBit = 16, 16, 15
        image.PixelRepresentation = 0
        image.RescaleIntercept, image.RescaleSlope, image.RescaleType = 0.0, 1.0, "US"
        image.PixelData = voxels[:, :, k].T.astype("<u2").tobytes()
        image.save_as(folder / f"{k:03}.dcm", enforce_file_format=True)
