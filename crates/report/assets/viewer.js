// Shows one case at a time in NiiVue. Nothing is unpacked before the reader asks for it: a page must open as fast as one without volumes.

const SLICES_AND_3D = 3, SLICES = { "Slices and 3D": 3, Axial: 0, Coronal: 1, Sagittal: 2, "3D": 4 };
const LABEL_OPACITY = 0.5;

// ---- What the page holds, unpacked ----

async function unpacked(base64) {
  const packed = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

// The browser runs NiiVue only if its bytes have the hash that the page's policy names.
let library;
function niivueLoaded() {
  library ??= (async () => {
    const script = document.createElement("script");
    script.textContent = new TextDecoder().decode(await unpacked(document.getElementById("niivue").textContent));
    document.head.append(script);
    if (!globalThis.niivue) throw new Error("the browser did not run NiiVue");
    return globalThis.niivue;
  })();
  return library;
}

// Why this browser cannot show the viewer, or nothing.
function lack() {
  if (typeof DecompressionStream === "undefined") return "This browser cannot unpack the viewer (it has no DecompressionStream).";
  const context = document.createElement("canvas").getContext("webgl2");
  if (!context) return "This browser has no WebGL2, or it is turned off.";
  context.getExtension("WEBGL_lose_context")?.loseContext();
  return "";
}

// A NIfTI-1 file of voxels of 8 bits, of which 0 and 255 mean `low` and `high`; the affine is row-major, from voxel index to LPS.
function nifti(shape, affine, voxels, [low, high]) {
  const file = new Uint8Array(352 + voxels.byteLength);
  const view = new DataView(file.buffer);
  const put = (kind, at, ...values) => {
    const bytes = kind === "Int16" ? 2 : 4;
    values.forEach((value, n) => view[`set${kind}`](at + n * bytes, value, true));
  };
  const rows = [0, 1, 2].map((row) => affine[row].map((value) => (row < 2 ? -value : value)));
  const spacing = [0, 1, 2].map((axis) => Math.hypot(...rows.map((row) => row[axis])));
  put("Int32", 0, 348);
  put("Int16", 40, 3, ...shape, 1, 1, 1, 1);
  put("Int16", 70, 2, 8);
  put("Float32", 76, 1, ...spacing, 1, 1, 1, 1);
  put("Float32", 108, 352, (high - low) / 255, low, high, low);
  file[123] = 2; // mm
  put("Int16", 252, 0, 1); // the matrix counts
  put("Float32", 280, ...rows.flat());
  file.set([0x6e, 0x2b, 0x31], 344);
  file.set(new Uint8Array(voxels), 352);
  return file.buffer;
}

// ---- The panel of a case ----

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// Far apart for neighbours, the same for the same value in every case.
function labelColour(value) {
  const hue = (value * 137.508 + 160) % 360;
  return [0, 8, 4].map((n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (0.6 - 0.32 * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  });
}

const swatch = (colour) => {
  const made = element("i", { className: "swatch" });
  made.style.background = `rgb(${colour.join()})`;
  return made;
};

let shown; // the one case in the viewer

function close(refocus) {
  if (!shown) return;
  const { panel, button, nv, details } = shown;
  shown = undefined;
  nv?.gl?.getExtension("WEBGL_lose_context")?.loseContext();
  nv?.cleanup();
  panel.remove();
  details.classList.remove("viewing");
  button.hidden = false;
  if (refocus) button.focus();
}

async function open(details, button) {
  close(false);
  const panel = element("section", { className: "viewer" });
  panel.setAttribute("aria-label", "Viewer");
  const state = element("p", { className: "note", textContent: "Unpacking the viewer …" });
  state.setAttribute("role", "status");
  panel.append(state);
  button.hidden = true;
  button.after(panel);
  const own = (shown = { panel, button, details });
  try {
    const problem = lack();
    if (problem) throw new Error(problem);
    await view(own, JSON.parse(document.getElementById(details.dataset.scene).textContent), state);
  } catch (error) {
    if (shown !== own) return;
    close(true);
    button.replaceWith(element("p", { className: "note", textContent: `No viewer: ${error.message} The slices stay.` }));
  }
}

async function view(own, scene, state) {
  const [{ Niivue, NVImage, NVMesh }, image, labels] = await Promise.all([
    niivueLoaded(), unpacked(scene.image), scene.labels && unpacked(scene.labels),
  ]);
  if (shown !== own) return; // closed meanwhile
  const grid = new Grid(scene);
  const flat = Math.min(...scene.shape) === 1;
  const canvas = element("canvas", { tabIndex: 0 });
  canvas.setAttribute("aria-label", "Slices of the image. Arrow keys and Page Up, Page Down move the crosshair.");
  canvas.setAttribute("role", "application");
  const stage = element("div", { className: "stage" }, canvas);
  own.panel.replaceChildren(stage);
  const nv = (own.nv = new Niivue({
    isRadiologicalConvention: true, sagittalNoseLeft: true, // as the slices of the page
    isOrientationTextVisible: !scene.in_pixels,
    backColor: [0, 0, 0, 1], crosshairColor: [0.9, 0.9, 0.9, 0.6], fontColor: [0.93, 0.94, 0.96, 1],
    crosshairWidth: grid.line * 0.7, crosshairWidthUnit: "mm", multiplanarLayout: 2,
    meshThicknessOn2D: flat ? Infinity : grid.line, meshXRay: 0.35, multiplanarShowRender: 1,
    dragAndDropEnabled: false, scrollRequiresFocus: true, loadingText: "", logLevel: "error", isAntiAlias: true,
    sliceType: flat ? SLICES.Axial : SLICES_AND_3D,
  }));
  await nv.attachToCanvas(canvas);
  const file = nifti(scene.shape, scene.affine, image, scene.window);
  nv.addVolume(await NVImage.new(file, "image.nii", "gray", 1, null, scene.window[0], scene.window[1]));
  if (labels) {
    const map = await NVImage.new(nifti(scene.shape, scene.affine, labels, [0, 255]), "labels.nii", "gray", LABEL_OPACITY);
    const colours = [[0, 0, 0], ...scene.label_names.map(([value]) => labelColour(value))];
    map.setColormapLabel({
      R: colours.map((c) => c[0]), G: colours.map((c) => c[1]), B: colours.map((c) => c[2]),
      A: colours.map((_, n) => (n ? 255 : 0)), I: colours.map((_, n) => n), labels: ["", ...scene.label_names.map(([, name]) => name)],
    });
    nv.addVolume(map);
  }
  const empty = new Surface();
  empty.ball(scene.through, 0, [0, 0, 0]);
  // Lines that shading makes dark are hard to see on an image.
  const plain = nv.setCustomMeshShader("#version 300 es\nprecision highp float;\nuniform float opacity;\nin vec4 vClr;\nout vec4 color;\n" +
    "void main() { color = vec4(vClr.rgb, opacity); }", "plain");
  const mesh = new NVMesh(new Float32Array(empty.points), new Uint32Array(empty.triangles), "marks",
    new Uint8Array(empty.colours), 1, scene.structures.length > 0, nv.gl);
  mesh.meshShaderIndex = plain;
  nv.addMesh(mesh);
  const place = element("output");
  place.setAttribute("aria-live", "off");
  let drawn = "";
  // Where slices cut boxes changes with the crosshair.
  const redraw = (at) => {
    if (shown !== own || drawn === at.join()) return;
    drawn = at.join();
    const surface = marks(scene.structures, grid, at);
    if (surface.points.length) {
      mesh.pts = new Float32Array(surface.points);
      mesh.tris = new Uint32Array(surface.triangles);
      mesh.rgba255 = new Uint8Array(surface.colours);
      mesh.updateMesh(nv.gl);
    }
    nv.drawScene();
  };
  nv.onLocationChange = ({ mm, values }) => {
    const at = ras(mm);
    const unit = scene.in_pixels ? "px" : "mm (LPS)";
    const label = values[1] && scene.label_names[Math.round(values[1].value) - 1];
    place.textContent = `${at.slice(0, flat && scene.in_pixels ? 2 : 3).map((x) => x.toFixed(1)).join(", ")} ${unit}` +
      ` · intensity about ${Number(values[0].value.toPrecision(3))}${label ? ` · ${label[1]}` : ""}`;
    requestAnimationFrame(() => redraw(at));
  };
  const go = (point) => {
    nv.scene.crosshairPos = nv.mm2frac(ras(point), 0, true);
    nv.createOnLocationChange();
    nv.drawScene();
  };
  own.panel.prepend(tools(own, scene, nv, mesh, flat, go));
  own.panel.append(place, element("p", { className: "help", textContent: help(scene, flat) }));
  keys(own, nv, canvas, flat);
  go(scene.through);
  own.details.classList.add("viewing");
  own.panel.querySelector("button").focus();
}

function help(scene, flat) {
  const size = scene.shape.slice(0, flat ? 2 : 3).join(" × ");
  const smaller = scene.shape.join() === scene.full_shape.join() ? "" : `, made smaller from ${scene.full_shape.slice(0, flat ? 2 : 3).join(" × ")}`;
  const how = flat
    ? "Press or drag: crosshair. Right button: contrast. Keys: arrows, Esc."
    : "Press or drag: crosshair, turns the 3D view. Wheel: next slice, zoom in 3D. Right button: contrast. Keys: arrows, Page Up and Page Down; Esc closes.";
  return `${how} Voxels have 8 bits here (${size}${smaller}): to look, not to measure.`;
}

function tools(own, scene, nv, mesh, flat, go) {
  const bar = element("div", { className: "tools" });
  if (!flat) {
    const select = element("select", {}, ...Object.keys(SLICES).map((name) => element("option", { textContent: name })));
    select.addEventListener("change", () => nv.setSliceType(SLICES[select.value]));
    bar.append(element("label", {}, "View ", select));
  }
  const tick = (name, change) => {
    const box = element("input", { type: "checkbox", checked: true });
    box.addEventListener("change", () => { change(box.checked); nv.drawScene(); });
    bar.append(element("label", {}, box, ` ${name}`));
  };
  if (scene.structures.length) tick("boxes and points", (on) => { mesh.visible = on; });
  if (scene.labels) tick("labels", (on) => nv.setOpacity(1, on ? LABEL_OPACITY : 0));
  const leave = element("button", { type: "button", textContent: "Close the viewer" });
  leave.addEventListener("click", () => close(true));
  bar.append(leave);
  const list = element("div", { className: "structures" });
  for (const { name, status, score, position } of scene.structures) {
    const button = element("button", { type: "button", title: "Go there" },
      swatch(COLOURS[status]), `${name} `, element("small", { textContent: `${status} ${score.toFixed(2)}` }));
    button.addEventListener("click", () => go(position));
    list.append(button);
  }
  if (scene.label_names.length) list.append(element("small", { textContent: "Labels:" }));
  for (const [value, name] of scene.label_names) list.append(element("span", {}, swatch(labelColour(value)), name));
  return element("div", {}, bar, list);
}

// Keys that NiiVue would take are kept from it: the page says which there are.
function keys(own, nv, canvas, flat) {
  const steps = {
    ArrowLeft: [1, 0, 0], ArrowRight: [-1, 0, 0], ArrowUp: [0, 1, 0], ArrowDown: [0, -1, 0],
    PageUp: [0, 0, 1], PageDown: [0, 0, -1],
  };
  own.panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      close(true);
    } else if (event.target === canvas) {
      event.stopPropagation();
      const step = steps[event.key];
      if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      if (nv.opts.sliceType === SLICES["3D"]) {
        nv.setRenderAzimuthElevation(nv.scene.renderAzimuth - 5 * step[0], nv.scene.renderElevation + 5 * (step[1] + step[2]));
      } else if (!(flat && step[2])) {
        nv.moveCrosshairInVox(...step);
      }
    }
  }, true);
  own.panel.addEventListener("keyup", (event) => event.stopPropagation(), true);
}

for (const details of document.querySelectorAll("details[data-scene]")) {
  const button = element("button", { type: "button", className: "look", textContent: "Open in the viewer" });
  button.addEventListener("click", () => open(details, button));
  details.querySelector("summary").after(button);
}
