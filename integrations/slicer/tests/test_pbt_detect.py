"""The module for 3D Slicer with Slicer's own libraries (the package slicer-core): a scene, volumes,
markups and segmentations are real, the application with its panels is stood in for.

Run by `cargo test --test cli slicer_module` with PBT_PROGRAM and PBT_TINY; ends with 77 where slicer-core
is not installed."""

import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

import numpy

try:
    import slicer
    import slicer.util
    import vtk
    import vtk.util.numpy_support
except ImportError as reason:
    print(f"slicer-core: {reason}")
    sys.exit(77)

PROGRAM, TINY = os.environ["PBT_PROGRAM"], Path(os.environ["PBT_TINY"])
MODEL, IMAGE = TINY / "gland.pbt", TINY / "c7.nii.gz"


class Application:
    """What of Slicer's application the module needs."""

    def startupEnvironment(self):
        environment = mock.Mock(wraps=dict(os.environ))
        environment.keys = os.environ.keys
        environment.value = os.environ.__getitem__
        return environment

    def processEvents(self):
        pass


def stand_in():
    """The modules that only the application has."""
    base = types.ModuleType("slicer.ScriptedLoadableModule")
    for name in ["", "Widget", "Logic"]:
        name = f"ScriptedLoadableModule{name}"
        methods = {"__init__": lambda self, parent=None: None, "setup": lambda self: None}
        setattr(base, name, type(name, (), methods))
    base.ScriptedLoadableModuleTest = unittest.TestCase
    sys.modules["slicer.ScriptedLoadableModule"] = base
    sys.modules["qt"], sys.modules["ctk"] = mock.MagicMock(), mock.MagicMock()
    # Each field is one of its own.
    sys.modules["qt"].QLineEdit = lambda *_: mock.MagicMock()
    slicer.qMRMLNodeComboBox = mock.MagicMock()
    slicer.app = Application()


stand_in()
sys.path.insert(0, str(Path(__file__).parents[1] / "PbtDetect"))
import PbtDetect  # noqa: E402


def new_scene():
    slicer.mrmlScene = slicer.vtkMRMLScene()
    # The logic counts on the application's selection node.
    slicer.mrmlScene.AddNode(slicer.vtkMRMLSelectionNode())
    logic = slicer.vtkSlicerMarkupsLogic()
    logic.SetMRMLScene(slicer.mrmlScene)
    markups = types.SimpleNamespace(logic=lambda: logic)
    slicer.modules = types.SimpleNamespace(markups=markups)


def load_volume(path=IMAGE):
    node = slicer.mrmlScene.AddNewNodeByClass("vtkMRMLScalarVolumeNode", "scan of <a> & b")
    storage = slicer.mrmlScene.AddNewNodeByClass("vtkMRMLVolumeArchetypeStorageNode")
    storage.SetFileName(str(path))
    assert storage.ReadData(node), path
    node.SetAndObserveStorageNodeID(storage.GetID())
    return node


def by_command(*options):
    """What the command finds in the file itself."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["detect", "-q", "-m", MODEL, "-i", IMAGE, "-o", folder, *options]
        subprocess.run([PROGRAM, *map(str, arguments)], check=True)
        return json.loads((Path(folder) / "c7.json").read_text())["detections"]


def place_of(roi):
    """Centre in LPS, as results have it."""
    matrix = roi.GetObjectToWorldMatrix()
    return [sign * matrix.GetElement(row, 3) for row, sign in enumerate([-1, -1, 1])]


class Logic(unittest.TestCase):
    def setUp(self):
        new_scene()
        self.logic = PbtDetect.PbtDetectLogic()

    def detect(self, volume, model=MODEL, **more):
        return self.logic.detect(volume, str(model), program=PROGRAM, **more)

    def test_boxes_lie_where_the_command_finds_them(self):
        volume = load_volume()
        file = volume.GetStorageNode().GetFileName()
        found = self.detect(volume)
        (expected,) = by_command()
        (box,) = found.detections
        self.assertEqual((box["name"], box["status"]), (expected["name"], expected["status"]))
        numpy.testing.assert_allclose(box["position_lps_mm"], expected["position_lps_mm"], atol=1e-3)
        (roi,) = found.markups
        self.assertEqual((roi.GetClassName(), roi.GetName()), ("vtkMRMLMarkupsROINode", "gland"))
        numpy.testing.assert_allclose(place_of(roi), expected["position_lps_mm"], atol=1e-3)
        size = [0.0] * 3
        roi.GetSizeWorld(size)
        numpy.testing.assert_allclose(size, expected["size_mm"], atol=1e-2)
        self.assertIsNone(found.segmentation)
        # The scene is saved where it was before, and looks for no file that is gone.
        self.assertEqual(volume.GetStorageNode().GetFileName(), file)
        self.assertIsNone(roi.GetStorageNode())

    def test_labels_are_a_segmentation_with_names(self):
        found = self.detect(load_volume(), labels=True)
        segments = found.segmentation.GetSegmentation()
        self.assertEqual(segments.GetNumberOfSegments(), 1)
        self.assertEqual(segments.GetNthSegment(0).GetName(), "gland")
        image = slicer.vtkOrientedImageData()
        found.segmentation.GetBinaryLabelmapRepresentation(segments.GetNthSegmentID(0), image)
        voxels = vtk.util.numpy_support.vtk_to_numpy(image.GetPointData().GetScalars())
        voxels = voxels.reshape(image.GetDimensions()[::-1])
        inside = numpy.argwhere(voxels != 0)[:, ::-1] + numpy.array(image.GetExtent()[::2])
        matrix = vtk.vtkMatrix4x4()
        image.GetImageToWorldMatrix(matrix)
        middle = matrix.MultiplyPoint([*inside.mean(axis=0), 1])[:3]
        middle = [-middle[0], -middle[1], middle[2]]
        # A box at the edge of the image is cut, so that its voxels' middle is not quite its centre.
        numpy.testing.assert_allclose(middle, place_of(found.markups[0]), atol=2.0)

    def test_results_follow_the_transform_of_the_volume(self):
        volume = load_volume()
        transform = slicer.mrmlScene.AddNewNodeByClass("vtkMRMLLinearTransformNode")
        matrix = vtk.vtkMatrix4x4()
        matrix.SetElement(0, 3, 50.0)
        transform.SetMatrixTransformToParent(matrix)
        volume.SetAndObserveTransformNodeID(transform.GetID())
        (expected,) = by_command()
        found = self.detect(volume, labels=True)
        for node in [*found.markups, found.segmentation]:
            self.assertEqual(node.GetTransformNodeID(), transform.GetID())
        moved = [expected["position_lps_mm"][0] - 50.0, *expected["position_lps_mm"][1:]]
        place = [0.0] * 3
        found.markups[0].GetCenterWorld(place)
        numpy.testing.assert_allclose([-place[0], -place[1], place[2]], moved, atol=1e-3)

    def test_a_second_detection_adds_and_takes_nothing_away(self):
        volume = load_volume()
        (first,) = self.detect(volume).markups
        (second,) = self.detect(volume).markups
        self.assertNotEqual(first.GetID(), second.GetID())
        self.assertIsNotNone(slicer.mrmlScene.GetNodeByID(first.GetID()))

    def test_what_is_wrong_is_one_line(self):
        volume = load_volume()
        before = slicer.mrmlScene.GetNumberOfNodes()

        def told(*arguments, **more):
            with self.assertRaises(ValueError) as caught:
                self.logic.detect(*arguments, **{"program": PROGRAM, **more})
            line = str(caught.exception)
            self.assertNotIn("\n", line)
            return line

        self.assertIn("no volume", told(None, str(MODEL)))
        empty = slicer.mrmlScene.AddNewNodeByClass("vtkMRMLScalarVolumeNode")
        self.assertIn("no volume", told(empty, str(MODEL)))
        slicer.mrmlScene.RemoveNode(empty)
        self.assertIn("no model", told(volume, ""))
        self.assertIn("phantom-us", told(volume, "phantom-uz"))
        self.assertIn("does not start", told(volume, str(MODEL), program="/nowhere/pbt"))
        with mock.patch.object(PbtDetect, "findProgram", return_value=None):
            self.assertIn("not on the PATH", told(volume, str(MODEL), program=None))
        self.assertEqual(slicer.mrmlScene.GetNumberOfNodes(), before)


class Panel(unittest.TestCase):
    def test_the_button_detects_and_lists_what_was_found(self):
        new_scene()
        widget = PbtDetect.PbtDetectWidget()
        widget.layout = mock.MagicMock()
        with mock.patch.object(PbtDetect.slicer.util, "toBool", return_value=False):
            widget.setup()
        widget.volume.currentNode.return_value = load_volume()
        widget.model.text, widget.program.text, widget.labels.checked = str(MODEL), PROGRAM, False
        connected = dict(call.args for call in widget.button.connect.call_args_list)
        shown = []
        item = PbtDetect.qt.QTableWidgetItem
        item.side_effect = lambda text: shown.append(text) or text
        errors = mock.MagicMock()
        errors.return_value.__exit__.return_value = False
        with mock.patch.object(PbtDetect.slicer.util, "tryWithErrorDisplay", errors):
            connected["clicked()"]()
        (expected,) = by_command()
        self.assertEqual(shown, ["gland", expected["status"], f"{expected['score']:.2f}"])
        widget.table.setRowCount.assert_called_with(1)


if __name__ == "__main__":
    unittest.main()
