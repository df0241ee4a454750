"""The notebook of the documentation runs from top to bottom."""

import os
import sys
from pathlib import Path

import nbclient
import nbformat

NOTEBOOK = Path(__file__).parents[3] / "docs" / "notebooks" / "first-steps.ipynb"


def test_first_steps(tmp_path, monkeypatch):
    # The command is that of this environment.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs"
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in shown)
    assert any("text/html" in output.get("data", {}) for output in shown)
    printed = "".join(output.get("text", "") for output in shown)
    assert "mm off" in printed and " ml; " in printed
