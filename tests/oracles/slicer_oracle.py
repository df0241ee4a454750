"""3D Slicer's own libraries (the package slicer-core) as a reader and writer of markups, for crates/io/tests/slicer.rs and
tests/cli/geometry.rs.

usage: slicer_oracle.py FOLDER    reads FOLDER/request.json, writes FOLDER/answer.json; ends with 77 where slicer-core is not installed

The request has `write`: boxes and points in RAS, each list to be saved by Slicer, a file for each box and one for the points, in the named
coordinate system; `read`: files of markups, each with the volume that it belongs to and values that occur in it once; and `segmentations`: label
maps. The answer has, for each file read, what Slicer then holds, all of it in RAS, and where the voxels with these values lie.
"""

import json
import pathlib
import sys

import numpy

try:
    import slicer
    import vtk
    import vtk.util.numpy_support
except ImportError as reason:
    print(f"slicer-core: {reason}")
    sys.exit(77)

STATUS = {
    slicer.vtkMRMLMarkupsNode.PositionUndefined: "undefined",
    slicer.vtkMRMLMarkupsNode.PositionPreview: "preview",
    slicer.vtkMRMLMarkupsNode.PositionDefined: "defined",
    slicer.vtkMRMLMarkupsNode.PositionMissing: "missing",
}


def rows(matrix):
    return [[matrix.GetElement(r, c) for c in range(4)] for r in range(4)]


def matrix_of(values):
    matrix = vtk.vtkMatrix4x4()
    matrix.DeepCopy([value for row in values for value in row])
    return matrix


def new_scene():
    scene, logic = slicer.vtkMRMLScene(), slicer.vtkSlicerMarkupsLogic()
    # The logic counts on the application's selection node.
    scene.AddNode(slicer.vtkMRMLSelectionNode())
    logic.SetMRMLScene(scene)
    return scene, logic


def places_of(path, values):
    """Slicer turns a mirrored volume's slices round, so that no index of ours is of use there."""
    scene, node, storage = slicer.vtkMRMLScene(), slicer.vtkMRMLScalarVolumeNode(), slicer.vtkMRMLVolumeArchetypeStorageNode()
    scene.AddNode(node)
    scene.AddNode(storage)
    storage.SetFileName(path)
    assert storage.ReadData(node), path
    matrix, voxels = vtk.vtkMatrix4x4(), slicer.util.arrayFromVolume(node)
    node.GetIJKToRASMatrix(matrix)
    places = []
    for value in values:
        ((k, j, i),) = numpy.argwhere(voxels == value).tolist()
        places.append(matrix.MultiplyPoint([i, j, k, 1])[:3])
    return places


def read_markups(path):
    scene, logic = new_scene()
    messages = slicer.vtkMRMLMessageCollection()
    assert logic.LoadMarkups(path, "", messages), f"{path}: {messages.GetAllMessagesAsString()}"
    boxes, points = [], []
    for node in nodes(scene, "vtkMRMLMarkupsROINode"):
        size = [0.0] * 3
        node.GetSizeWorld(size)
        display = node.GetDisplayNode()
        look = {"color": display.GetSelectedColor(), "opacity": display.GetOpacity(), "visible": bool(display.GetVisibility())}
        boxes.append({"name": node.GetName(), "to_ras": rows(node.GetObjectToWorldMatrix()), "size_mm": size, "look": look})
    for node in nodes(scene, "vtkMRMLMarkupsFiducialNode"):
        for n in range(node.GetNumberOfControlPoints()):
            points.append({
                "label": node.GetNthControlPointLabel(n),
                "status": STATUS[node.GetNthControlPointPositionStatus(n)],
                "ras": list(node.GetNthControlPointPositionWorld(n)),
            })
    return {"boxes": boxes, "points": points, "complaints": messages.GetAllMessagesAsString()}


def read_segmentation(path):
    """Name, number of voxels and middle in RAS of each segment."""
    scene, _ = new_scene()
    node, storage = slicer.vtkMRMLSegmentationNode(), slicer.vtkMRMLSegmentationStorageNode()
    scene.AddNode(node)
    scene.AddNode(storage)
    storage.SetFileName(path)
    assert storage.ReadData(node), path
    segments, answer = node.GetSegmentation(), []
    for n in range(segments.GetNumberOfSegments()):
        name = segments.GetNthSegment(n).GetName()
        image = slicer.vtkOrientedImageData()
        node.GetBinaryLabelmapRepresentation(segments.GetNthSegmentID(n), image)
        matrix = vtk.vtkMatrix4x4()
        image.GetImageToWorldMatrix(matrix)
        voxels = vtk.util.numpy_support.vtk_to_numpy(image.GetPointData().GetScalars()).reshape(image.GetDimensions()[::-1])
        inside = numpy.argwhere(voxels != 0)[:, ::-1] + numpy.array(image.GetExtent()[::2])
        middle = matrix.MultiplyPoint([*inside.mean(axis=0), 1])[:3] if len(inside) else None
        answer.append({"name": name, "voxels": len(inside), "middle": middle})
    return answer


def nodes(scene, kind):
    return [scene.GetNthNodeByClass(n, kind) for n in range(scene.GetNumberOfNodesByClass(kind))]


def write_markups(folder, system, boxes, points):
    """A file for each box and one for all points, named as Slicer's dialog names them."""
    scene, _ = new_scene()
    made = []
    for box in boxes:
        node = scene.AddNewNodeByClass("vtkMRMLMarkupsROINode", box["name"])
        node.SetAndObserveObjectToNodeMatrix(matrix_of(box["to_ras"]))
        node.SetSize(box["size_mm"])
        made.append(node)
    node = scene.AddNewNodeByClass("vtkMRMLMarkupsFiducialNode", "points")
    for point in points:
        n = node.AddControlPoint(vtk.vtkVector3d(point["ras"]), point["label"])
        if point["status"] == "missing":
            node.SetNthControlPointPositionMissing(n)
    for node in [*made, node]:
        node.AddDefaultStorageNode()
        storage = node.GetStorageNode()
        storage.SetCoordinateSystem(getattr(slicer.vtkMRMLStorageNode, f"CoordinateSystem{system}"))
        storage.SetFileName(f"{folder}/{node.GetName()}.mrk.json")
        assert storage.WriteData(node), folder


def main(folder):
    request = json.loads((folder / "request.json").read_text())
    for item in request["write"]:
        write_markups(item["folder"], item["system"], item["boxes"], item["points"])
    read = request["read"]
    answer = [read_markups(item["markups"]) | {"places": places_of(item["volume"], item["values"])} for item in read]
    answer += [read_segmentation(path) for path in request.get("segmentations", [])]
    (folder / "answer.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
