"""What the package brings with it."""

from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_it_holds_the_licences_of_all_that_it_is_made_of():
    expected = {path.name: path for path in ROOT.glob("LICENSE-*")}
    expected["THIRD_PARTY.md"] = ROOT / "THIRD_PARTY.md"
    # The one that THIRD_PARTY.md refers to.
    expected["LICENCES.txt"] = ROOT / "crates/report/vendor/LICENCES.txt"
    files = [file for file in distribution("pbt").files if file.parent.name == "licenses"]
    assert {file.name for file in files} == set(expected)
    for file in files:
        assert file.locate().read_bytes() == expected[file.name].read_bytes(), file
    assert {"LICENSE-MIT", "LICENSE-APACHE"} <= set(expected)
    assert set(distribution("pbt").metadata.get_all("License-File")) == set(expected)
