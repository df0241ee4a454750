"""Opens pages of `pbt report` in Chromium and checks what cannot be checked without a browser.

    pip install playwright
    python3 tests/browser/report_page.py --pbt target/release/pbt --chromium /usr/bin/chromium -o pictures

Makes its own data (`made_batch.py`), needs no GPU and no network, and takes about two minutes. Writes pictures; look at
them. Ends with an error at the first check that fails.
"""

import argparse
import base64
import re
import subprocess
import tempfile
import time
from pathlib import Path

from made_batch import CENTER, GRIDS, HOSTILE, made, many
from playwright.sync_api import sync_playwright

WEBGL = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-sandbox"]
NO_WEBGL = ["--disable-gpu", "--disable-webgl", "--disable-webgl2", "--disable-3d-apis", "--no-sandbox"]


class Page:
    """A page, which must load nothing, ask nothing and complain of nothing."""

    def __init__(self, browser, path, **options):
        self.complaints = []
        self.page = browser.new_page(**{"viewport": {"width": 1200, "height": 1000}, **options})
        self.page.on("console", lambda m: self.complaints.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda e: self.complaints.append(f"error: {e}"))
        self.page.on("dialog", lambda d: self.complaints.append(f"dialog: {d.message}"))
        loads = lambda r: None if r.url.startswith(("file:", "data:")) else self.complaints.append(f"loads {r.url}")
        self.page.on("request", loads)
        self.page.goto(path.as_uri())

    def case(self, name):
        return self.page.locator("details.case").filter(has=self.page.get_by_text(name, exact=True)).first

    def open(self, name):
        """The case, opened in the viewer."""
        case = self.case(name)
        if not case.evaluate("e => e.open"):
            case.locator("summary").first.click()
        case.locator(".look").click()
        case.locator(".viewer output").filter(has_text=re.compile(r"\d")).wait_for()
        self.page.wait_for_timeout(800)
        return case

    def close(self):
        assert not self.complaints, self.complaints
        self.page.close()


def place(case):
    """Where the crosshair is, mm, and the intensity there."""
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", case.locator(".viewer output").inner_text())]


def quarters(picture, browser):
    """Of a picture of the canvas in the axial view: how many pixels of each quarter are white, as
    [[left top, right top], [left bottom, right bottom]]."""
    page = browser.new_page()
    counts = page.evaluate(
        """async (png) => {
          const image = new Image();
          image.src = "data:image/png;base64," + png;
          await image.decode();
          const canvas = document.createElement("canvas");
          canvas.width = image.width; canvas.height = image.height;
          const context = canvas.getContext("2d");
          context.drawImage(image, 0, 0);
          const { data } = context.getImageData(0, 0, image.width, image.height);
          const counts = [[0, 0], [0, 0]];
          for (let y = 0; y < image.height; y++) for (let x = 0; x < image.width; x++) {
            const at = 4 * (y * image.width + x);
            if (Math.min(data[at], data[at + 1], data[at + 2]) > 235) counts[+(y > image.height / 2)][+(x > image.width / 2)]++;
          }
          return counts;
        }""",
        base64.b64encode(picture).decode(),
    )
    page.close()
    return counts


def sides(browser, path, out):
    """The cube, made at the patient's left, front and top, is there in every grid: right, up and bright."""
    page = Page(browser, path)
    for name in GRIDS:
        case = page.open(name)
        case.locator(".structures button").filter(has_text="cube").click()
        page.page.wait_for_timeout(800)
        found = place(case)
        assert all(abs(a - b) < 0.06 for a, b in zip(found, CENTER)), (name, found)
        assert found[3] > 990, (name, found)
        case.screenshot(path=out / f"viewer-{name.replace(' ', '-')}.png")
        case.get_by_label("boxes and points").uncheck()
        for view in ["Axial", "Coronal"]:
            case.locator("select").select_option(view)
            page.page.wait_for_timeout(800)
            counts = quarters(case.locator("canvas").screenshot(), browser)
            # The crosshair, too, is white: it leaves some pixels in every quarter.
            assert counts[0][1] > 4 * max(counts[0][0], counts[1][0], counts[1][1]), (name, view, counts)
        case.locator("select").select_option("Sagittal")
        page.page.wait_for_timeout(800)
        counts = quarters(case.locator("canvas").screenshot(), browser)
        assert counts[0][0] > 4 * max(counts[0][1], counts[1][0], counts[1][1]), (name, "Sagittal", counts)
        case.locator("select").select_option("3D")
        page.page.wait_for_timeout(800)
        case.get_by_text("Close the viewer").click()
        assert case.locator(".viewer").count() == 0
    page.close()


def kinds(browser, path, out):
    """Labels have names, names are text, a 2D image is shown in pixels."""
    page = Page(browser, path)
    case = page.open("labelled")
    assert place(case)[:3] == list(CENTER) and "the cube" in case.locator("output").inner_text()
    assert HOSTILE in case.locator(".structures").inner_text()
    # The slices under it have the label, too, in the viewer's colour.
    colour = case.locator(".structures span").filter(has_text="the cube").locator("i").evaluate("e => getComputedStyle(e).backgroundColor")
    slices = case.locator("svg rect + text").evaluate_all("all => all.map(e => [getComputedStyle(e.previousElementSibling).fill, e.textContent])")
    assert [colour, "the cube"] in slices, (colour, slices)
    case.screenshot(path=out / "labels.png")
    case.get_by_label("labels", exact=True).uncheck()
    case = page.open(HOSTILE)
    assert page.page.locator(".viewer").count() == 1
    case.screenshot(path=out / "hostile.png")
    case = page.open("wing")
    case.locator(".structures button").filter(has_text="corner").click()
    page.page.wait_for_timeout(500)
    assert place(case)[:2] == [120.0, 25.0] and "px" in case.locator("output").inner_text()
    assert place(case)[2] > 240
    case.screenshot(path=out / "2d.png")
    gone = page.case("gone")
    gone.locator("summary").click()
    assert "not in the viewer" in gone.inner_text() and gone.locator(".look").count() == 0
    page.close()


def keyboard(browser, path):
    """All of it without a mouse."""
    page = Page(browser, path)
    press, focused = page.page.keyboard.press, lambda: page.page.evaluate("document.activeElement.textContent")
    page.case("as in DICOM").locator("summary").focus()
    press("Enter")
    press("Tab")
    assert focused() == "Open in the viewer", focused()
    press("Enter")
    case = page.case("as in DICOM")
    case.locator(".viewer output").filter(has_text=re.compile(r"\d")).wait_for()
    page.page.wait_for_timeout(500)
    for _ in range(20):
        if page.page.evaluate("document.activeElement.tagName") == "CANVAS":
            break
        press("Tab")
    # The first step goes on from the middle of a voxel; voxels have 2, 2 and 3 mm.
    press("ArrowLeft")
    page.page.wait_for_timeout(300)
    before = place(case)
    for key, axis, step in [("ArrowRight", 0, 2), ("ArrowLeft", 0, -2), ("ArrowUp", 1, -2), ("ArrowDown", 1, 2), ("PageUp", 2, 3), ("PageDown", 2, -3)]:
        press(key)
        page.page.wait_for_timeout(300)
        after = place(case)
        assert abs(after[axis] - before[axis] - step) < 0.11, (key, before, after)
        before = after
    press("Shift+Slash")
    press("Escape")
    assert focused() == "Open in the viewer" and case.locator(".viewer").count() == 0
    page.close()


def looks(browser, path, out):
    """Dark, narrow, on paper."""
    page = Page(browser, path, color_scheme="dark")
    page.open("as in DICOM")
    page.page.screenshot(path=out / "dark.png")
    page.close()
    page = Page(browser, path, viewport={"width": 390, "height": 844})
    page.open("as in DICOM")
    assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than a telephone"
    page.page.screenshot(path=out / "narrow.png")
    page.close()
    page = Page(browser, path)
    case = page.open("as in DICOM")
    assert not case.locator(".picture").is_visible()
    page.page.emulate_media(media="print")
    assert case.locator(".picture").is_visible() and not case.locator(".viewer").is_visible()
    page.page.emulate_media(media=None)
    page.page.pdf(path=out / "print.pdf")
    page.close()


def without(playwright, chromium, path, out):
    """Without WebGL2 and without DecompressionStream the slices stay, and the page says why."""
    for what, arguments, script in [("WebGL2", NO_WEBGL, ""), ("DecompressionStream", WEBGL, "delete globalThis.DecompressionStream")]:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        context = browser.new_context()
        context.add_init_script(script)
        tab = context.new_page()
        tab.goto(path.as_uri())
        case = tab.locator("details[data-scene]").first
        case.locator("summary").first.click()
        case.locator(".look").click()
        note = case.locator(".note").filter(has_text="No viewer")
        note.wait_for()
        assert what in note.inner_text(), note.inner_text()
        assert case.locator(".picture").is_visible()
        case.screenshot(path=out / f"without-{what}.png")
        browser.close()


def quick(browser, path, kind):
    """Seconds until a page can be read and answers."""
    page = Page(browser, path)
    seconds = page.page.evaluate("performance.getEntriesByType('navigation')[0].domComplete / 1000")
    begin = time.time()
    page.page.fill("#find", "case 0123")
    assert page.page.locator("#shown").inner_text().startswith("1 of"), page.page.locator("#shown").inner_text()
    print(f"{kind}: {path.stat().st_size / 1e6:.1f} MB, {seconds:.2f} s to open, {time.time() - begin:.2f} s to find a case")
    assert seconds < 3.0
    page.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pbt", required=True)
    parser.add_argument("--chromium", help="default: the one of Playwright")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    out = arguments.output
    out.mkdir(parents=True, exist_ok=True)
    report = lambda found, page, *more: subprocess.run([arguments.pbt, "-q", "report", found, "-o", page, *more], check=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        folder = Path(folder)
        page = folder / "page.html"
        report(made(folder / "some"), page, "--viewer", "niivue")
        thousand = many(folder / "many")
        report(thousand, folder / "plain.html")
        report(thousand, folder / "full.html", "--viewer", "niivue")
        browser = playwright.chromium.launch(executable_path=arguments.chromium, args=WEBGL)
        quick(browser, folder / "plain.html", "1,000 cases")
        quick(browser, folder / "full.html", "1,000 cases with the viewer")
        sides(browser, page, out)
        kinds(browser, page, out)
        keyboard(browser, page)
        looks(browser, page, out)
        browser.close()
        without(playwright, arguments.chromium, page, out)
    print(f"all well; look at the pictures in {out}")


if __name__ == "__main__":
    main()
