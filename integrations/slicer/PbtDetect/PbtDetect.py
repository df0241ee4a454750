"""Finds anatomical structures in the loaded volume with pbt, and shows boxes, points and labels.

The work is done by the command `pbt detect`, which must be installed on this computer."""

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import ctk
import qt
import slicer
from slicer.ScriptedLoadableModule import (
    ScriptedLoadableModule,
    ScriptedLoadableModuleLogic,
    ScriptedLoadableModuleTest,
    ScriptedLoadableModuleWidget,
)

#: Settings of the application that keep what was chosen last.
PROGRAM, MODEL, LABELS = "PbtDetect/program", "PbtDetect/model", "PbtDetect/labels"


class PbtDetect(ScriptedLoadableModule):
    """What Slicer shows of the module."""

    def __init__(self, parent):
        ScriptedLoadableModule.__init__(self, parent)
        parent.title = "pbt detect"
        parent.categories = ["Segmentation"]
        parent.dependencies = []
        parent.contributors = ["The authors of pbt"]
        parent.helpText = (
            "Finds the structures of a pbt model in a volume and shows them as ROIs, points and, if"
            " wanted, a segmentation. Needs the command <code>pbt</code>. Models are files, or names"
            " of models that pbt knows, such as <code>phantom-ct</code>."
        )
        parent.acknowledgementText = "For research only. Not a medical device."


class PbtDetectWidget(ScriptedLoadableModuleWidget):
    """The panel."""

    def setup(self):
        ScriptedLoadableModuleWidget.setup(self)
        self.logic = PbtDetectLogic()
        settings = qt.QSettings()

        form = qt.QFormLayout()
        box = ctk.ctkCollapsibleButton()
        box.text = "Detect"
        box.setLayout(form)
        self.layout.addWidget(box)

        self.volume = slicer.qMRMLNodeComboBox()
        self.volume.nodeTypes = ["vtkMRMLScalarVolumeNode"]
        self.volume.addEnabled = self.volume.removeEnabled = False
        self.volume.setMRMLScene(slicer.mrmlScene)
        form.addRow("Volume:", self.volume)

        self.model = qt.QLineEdit(settings.value(MODEL, "phantom-ct"))
        self.model.toolTip = "A model file, or the name of a model that pbt knows"
        choose = qt.QPushButton("…")
        choose.connect("clicked()", self.chooseModel)
        row = qt.QHBoxLayout()
        row.addWidget(self.model)
        row.addWidget(choose)
        form.addRow("Model:", row)

        self.labels = qt.QCheckBox()
        self.labels.checked = slicer.util.toBool(settings.value(LABELS, False))
        self.labels.toolTip = "Show what each voxel belongs to, as a segmentation"
        form.addRow("Labels:", self.labels)

        self.program = qt.QLineEdit(settings.value(PROGRAM, ""))
        self.program.placeholderText = findProgram() or "pbt is not on the PATH: name the program"
        self.program.toolTip = "The program pbt, if it is not on the PATH"
        form.addRow("Program:", self.program)

        self.button = qt.QPushButton("Detect")
        self.button.connect("clicked()", self.run)
        form.addRow(self.button)

        self.table = qt.QTableWidget(0, 3)
        self.table.setHorizontalHeaderLabels(["structure", "status", "score"])
        form.addRow(self.table)
        self.layout.addStretch(1)

    def chooseModel(self):
        """Asks for a model file."""
        path = qt.QFileDialog.getOpenFileName(None, "Model", "", "Models of pbt (*.pbt)")
        if path:
            self.model.text = path

    def run(self):
        """Detects in the chosen volume."""
        settings = qt.QSettings()
        for key, value in [
            (MODEL, self.model.text),
            (LABELS, self.labels.checked),
            (PROGRAM, self.program.text),
        ]:
            settings.setValue(key, value)
        with slicer.util.tryWithErrorDisplay("pbt could not detect.", waitCursor=True):
            found = self.logic.detect(
                self.volume.currentNode(),
                self.model.text.strip(),
                labels=self.labels.checked,
                program=self.program.text.strip() or None,
            )
            self.show(found.detections)

    def show(self, detections):
        """Lists all structures, absent ones too."""
        self.table.setRowCount(len(detections))
        for row, detection in enumerate(detections):
            cells = [detection["name"], detection["status"], f"{detection['score']:.2f}"]
            for column, text in enumerate(cells):
                self.table.setItem(row, column, qt.QTableWidgetItem(text))


class Found:
    """What was found: the detections of the result, and the nodes that show them."""

    def __init__(self, detections, warnings, markups, segmentation):
        self.detections = detections
        self.warnings = warnings
        self.markups = markups
        self.segmentation = segmentation


class PbtDetectLogic(ScriptedLoadableModuleLogic):
    """Detection, without the panel."""

    def detect(self, volume, model, labels=False, program=None):
        """Runs `pbt detect` on a volume and adds ROIs, points and, with `labels`, a segmentation to the
        scene. They follow the transform of the volume. Raises ValueError with one line where something
        is wrong."""
        if volume is None or volume.GetImageData() is None:
            raise ValueError("There is no volume: load or choose one.")
        if not model:
            raise ValueError("There is no model: give a file or a name.")
        program = program or findProgram()
        if not program:
            raise ValueError("The program pbt is not on the PATH: install it, or name it.")
        with tempfile.TemporaryDirectory(prefix="pbt-") as folder:
            folder = Path(folder)
            image = folder / "volume.nrrd"
            self.write(volume, image)
            arguments = ["detect", "--model", model, "--input", image, "--output", folder]
            self.run([program, *arguments, *(["--labels"] if labels else [])])
            result = json.loads((folder / "volume.json").read_text(encoding="utf-8"))
            markups = self.readMarkups(folder / "volume.mrk.json")
            segmentation = None
            if labels:
                segmentation = self.readSegmentation(folder / "volume.pbt.seg.nrrd")
                segmentation.SetName(f"{volume.GetName()} labels")
                segmentation.SetReferenceImageGeometryParameterFromVolumeNode(volume)
        for node in [*markups, *([segmentation] if segmentation else [])]:
            node.SetAndObserveTransformNodeID(volume.GetTransformNodeID())
        for warning in result["warnings"]:
            logging.warning(warning)
        return Found(result["detections"], result["warnings"], markups, segmentation)

    def write(self, volume, path):
        """Writes the volume as it is, without its transform. Its own storage node stays as it was, so
        that the scene is saved where it was before."""
        storage = slicer.vtkMRMLNRRDStorageNode()
        storage.SetFileName(str(path))
        storage.SetUseCompression(False)
        if not storage.WriteData(volume):
            raise ValueError("The volume cannot be written: is the disk full?")

    def run(self, arguments):
        """Runs the program in the environment that Slicer was started in, and keeps the application
        awake."""
        arguments = [str(argument) for argument in arguments]
        logging.info(" ".join(arguments))
        try:
            process = slicer.util.launchConsoleProcess(arguments)
        except OSError as error:
            raise ValueError(f"{arguments[0]} does not start: {error}") from None
        lines = []
        with process.stdout:
            for line in process.stdout:
                lines.append(line.rstrip())
                logging.info(lines[-1])
                slicer.app.processEvents()
        if process.wait() != 0:
            errors = [line for line in lines if line.startswith("error: ")]
            said = errors or lines[-1:] or [f"ended with {process.returncode}"]
            raise ValueError(said[0].removeprefix("error: "))

    def readMarkups(self, path):
        """Adds the markups of a file to the scene: an ROI for each box, one node for all points."""
        scene = slicer.mrmlScene
        before = set(nodesOf(scene, "vtkMRMLMarkupsNode"))
        messages = slicer.vtkMRMLMessageCollection()
        if not slicer.modules.markups.logic().LoadMarkups(str(path), "", messages):
            # A result without any place has no markups.
            if not json.loads(path.read_text(encoding="utf-8"))["markups"]:
                return []
            raise ValueError(messages.GetAllMessagesAsString())
        new = [node for node in nodesOf(scene, "vtkMRMLMarkupsNode") if node not in before]
        for node in new:
            forgetFile(node)
        return new

    def readSegmentation(self, path):
        """Adds a label map to the scene, a segment for each label."""
        node = slicer.mrmlScene.AddNewNodeByClass("vtkMRMLSegmentationNode")
        storage = slicer.mrmlScene.AddNewNodeByClass("vtkMRMLSegmentationStorageNode")
        storage.SetFileName(str(path))
        read = storage.ReadData(node)
        slicer.mrmlScene.RemoveNode(storage)
        if not read:
            slicer.mrmlScene.RemoveNode(node)
            raise ValueError("The labels cannot be read.")
        node.CreateDefaultDisplayNodes()
        return node


def nodesOf(scene, kind):
    """All nodes of a class."""
    return [scene.GetNthNodeByClass(n, kind) for n in range(scene.GetNumberOfNodesByClass(kind))]


def forgetFile(node):
    """A node must not remember a file that is gone: saving the scene would look for it."""
    storage = node.GetStorageNode()
    if storage is not None:
        slicer.mrmlScene.RemoveNode(storage)


def findProgram():
    """The program pbt: that of Slicer's own Python, if the package is installed there, or on the PATH;
    None where there is none."""
    own = Path(sys.executable).parent / ("pbt.exe" if os.name == "nt" else "pbt")
    return str(own) if own.is_file() else shutil.which("pbt")


class PbtDetectTest(ScriptedLoadableModuleTest):
    """Run by *Reload and Test*: a phantom of `pbt demo`, and the model that pbt has for it."""

    def setUp(self):
        slicer.mrmlScene.Clear()

    def runTest(self):
        self.setUp()
        self.test_phantom()

    def test_phantom(self):
        program = findProgram()
        self.assertIsNotNone(program, "pbt is not on the PATH")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [program, "demo", "--data-only", "--modality", "us", "--cases", "2", "-o", folder],
                check=True,
                env=slicer.util.startupEnvironment(),
            )
            volume = slicer.util.loadVolume(str(Path(folder) / "us/images/us-test-01.nii.gz"))
            found = PbtDetectLogic().detect(volume, "phantom-us", labels=True)
        self.assertEqual([d["name"] for d in found.detections], ["gland"])
        self.assertEqual([node.GetName() for node in found.markups], ["gland"])
        self.assertEqual(found.segmentation.GetSegmentation().GetNumberOfSegments(), 1)
        self.delayDisplay("pbt found the gland")
