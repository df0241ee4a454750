// Boxes and points of a case as one mesh. All that a case holds is in LPS; `ras` is where NiiVue's world begins.

const COLOURS = { found: [61, 220, 132], doubtful: [255, 159, 28], outside: [90, 169, 230] };
const ras = ([x, y, z]) => [-x, -y, z];

const plus = (a, b) => a.map((x, n) => x + b[n]);
const minus = (a, b) => a.map((x, n) => x - b[n]);
const times = (a, s) => a.map((x) => x * s);
const dot = (a, b) => a.reduce((sum, x, n) => sum + x * b[n], 0);
const cross = ([a, b, c], [d, e, f]) => [b * f - c * e, c * d - a * f, a * e - b * d];
const unit = (a) => times(a, 1 / (Math.hypot(...a) || 1));

// Corners whose numbers differ in one bit are joined.
const EDGES = [1, 2, 4].flatMap((bit) => [...Array(8).keys()].filter((n) => !(n & bit)).map((n) => [n, n | bit]));

// An octahedron whose triangles are divided twice and blown up to a ball.
const BALL = (() => {
  let triangles = [];
  for (const x of [1, -1]) for (const y of [1, -1]) for (const z of [1, -1]) {
    const corners = [[x, 0, 0], [0, y, 0], [0, 0, z]];
    triangles.push(x * y * z > 0 ? corners : [corners[1], corners[0], corners[2]]);
  }
  for (let n = 0; n < 2; n++) {
    triangles = triangles.flatMap(([a, b, c]) => {
      const [ab, bc, ca] = [unit(plus(a, b)), unit(plus(b, c)), unit(plus(c, a))];
      return [[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]];
    });
  }
  return triangles;
})();

class Surface {
  points = []; triangles = []; colours = [];
  // Seen from both sides: in radiological views NiiVue takes the front for the back.
  add(corners, colour) {
    const first = this.points.length / 3;
    for (const corner of corners) {
      this.points.push(...ras(corner));
      this.colours.push(...colour, 255);
    }
    for (let n = 2; n < corners.length; n++) {
      this.triangles.push(first, first + n - 1, first + n, first, first + n, first + n - 1);
    }
  }
  ball(center, radius, colour) {
    for (const triangle of BALL) this.add(triangle.map((p) => plus(center, times(p, radius))), colour);
  }
  bar(from, to, radius, colour) {
    const along = unit(minus(to, from));
    const side = unit(cross(along, Math.abs(along[0]) < 0.7 ? [1, 0, 0] : [0, 1, 0]));
    const up = cross(along, side);
    const ring = [[1, 1], [-1, 1], [-1, -1], [1, -1]].map(([a, b]) => times(plus(times(side, a), times(up, b)), radius));
    const [start, end] = [minus(from, times(along, radius)), plus(to, times(along, radius))];
    for (let n = 0; n < 4; n++) {
      const [a, b] = [ring[n], ring[(n + 1) % 4]];
      this.add([plus(start, a), plus(start, b), plus(end, b), plus(end, a)], colour);
    }
  }
  // What a plane through `at` cuts from a ball.
  disc(center, radius, at, normal, colour) {
    const off = dot(normal, minus(center, at));
    if (Math.abs(off) >= radius) return;
    const here = minus(center, times(normal, off)), size = Math.sqrt(radius ** 2 - off ** 2);
    const u = unit(cross(normal, Math.abs(normal[0]) < 0.7 ? [1, 0, 0] : [0, 1, 0])), v = cross(normal, u);
    const turns = [...Array(16).keys()].map((n) => (n * Math.PI) / 8);
    this.add(turns.map((a) => plus(here, times(plus(times(u, Math.cos(a)), times(v, Math.sin(a))), size))), colour);
  }
  // A line that lies in a plane.
  ribbon(from, to, normal, radius, colour) {
    const along = times(unit(minus(to, from)), radius), side = times(unit(cross(along, normal)), radius);
    const [start, end] = [minus(from, along), plus(to, along)];
    this.add([plus(start, side), minus(start, side), minus(end, side), plus(end, side)], colour);
  }
}

// From LPS to voxels and back.
class Grid {
  constructor({ shape, affine }) {
    this.shape = shape;
    this.origin = affine.slice(0, 3).map((row) => row[3]);
    this.steps = [0, 1, 2].map((axis) => affine.slice(0, 3).map((row) => row[axis]));
    const [a, b, c] = this.steps;
    const volume = dot(a, cross(b, c));
    this.inverse = [cross(b, c), cross(c, a), cross(a, b)].map((row) => times(row, 1 / volume));
    // Half the width of lines, seen as a thin one whatever the size of the image.
    this.line = 0.0035 * Math.max(...this.steps.map((step, axis) => Math.hypot(...step) * shape[axis]));
  }
  voxel(point) { return this.inverse.map((row) => dot(row, minus(point, this.origin))); }
  point(voxel) { return this.steps.reduce((sum, step, axis) => plus(sum, times(step, voxel[axis])), this.origin); }
}

// The boxes' edges and the points as balls, and where the three slices through `at` cut them.
function marks(structures, grid, at) {
  const surface = new Surface();
  const line = grid.line, here = grid.voxel(at);
  const normals = [0, 1, 2].map((axis) => unit(cross(grid.steps[(axis + 1) % 3], grid.steps[(axis + 2) % 3])));
  for (const { corners, position, status } of structures) {
    const colour = COLOURS[status];
    if (!corners) {
      surface.ball(position, line * 4, colour);
      for (const normal of normals) surface.disc(position, line * 4, at, normal, colour);
      continue;
    }
    for (const [a, b] of EDGES) surface.bar(corners[a], corners[b], line * 0.8, colour);
    const voxels = corners.map((corner) => grid.voxel(corner));
    for (let axis = 0; axis < 3; axis++) {
      const cut = section(voxels, axis, here[axis]).map((voxel) => grid.point(voxel));
      cut.forEach((from, n) => surface.ribbon(from, cut[(n + 1) % cut.length], normals[axis], line, colour));
    }
  }
  return surface;
}

// The convex polygon in which a plane of constant index cuts a box.
function section(voxels, axis, index) {
  const points = [];
  for (const [a, b] of EDGES) {
    const [from, to] = [voxels[a][axis] - index, voxels[b][axis] - index];
    if (from < 0 !== to < 0) points.push(plus(voxels[a], times(minus(voxels[b], voxels[a]), from / (from - to))));
  }
  if (points.length < 3) return [];
  const middle = times(points.reduce(plus), 1 / points.length);
  const [u, v] = [(axis + 1) % 3, (axis + 2) % 3];
  const angle = (p) => Math.atan2(p[v] - middle[v], p[u] - middle[u]);
  return points.sort((p, q) => angle(p) - angle(q));
}

