// ---- drawing ----
function draw() {
  if (wanted) return;
  wanted = requestAnimationFrame(() => { wanted = 0; paint(); });
}

function paint() {
  const ratio = devicePixelRatio || 1, wide = canvas.clientWidth, high = canvas.clientHeight;
  if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
    if (view.fitted) fit();
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, wide, high);
  pen.lineJoin = "round";
  const shown = scene.queries.map((query, number) => ({ query, number })).filter(({ query }) => !chosen.off.has(query.name));
  paintGround(wide, high);
  grid(wide, high);
  if (chosen.slots) paintCells();
  if (chosen.regions) {
    state.areas.forEach((area) => outline(area.rings, css("--faint"), 0.04, [5, 4]));
    shown.forEach(({ query, number }) => shaded(query).forEach(({ rings, share }) =>
      outline(rings, hue(number), FAINTEST + (DARKEST - FAINTEST) * share, [])));
    shown.forEach(({ query, number }) => outline(query.rings, hue(number), 0.1, []));
  }
  paintTrails();
  clearSheet();
  if (chosen.objects) paintAllShapes();
  if (scene.objects.shapes) shown.forEach(({ query, number }) => paintShapes(Set.prototype.has.bind(new Set(query.members)), hue(number), 0.25));
  if (chosen.objects) paintObjects();
  shown.forEach(({ query, number }) => manyMembers(query, hue(number)));
  paintSheet();
  shown.forEach(({ query, number }) => spokes(query, hue(number)));
  shown.forEach(({ query, number }) => members(query, hue(number)));
  shown.forEach(({ query, number }) => centre(query, hue(number)));
  ring();
  labels = [];
  if (chosen.names && chosen.regions) {
    state.areas.forEach((area) => label(area.rings, area.name, css("--faint")));
    shown.forEach(({ query, number }) => label(query.rings, query.name, hue(number)));
    shown.forEach(({ query }) => shaded(query).forEach(({ rings, name, text }) => label(rings, `${name} ${text}`, css("--ink"))));
  }
  frame(wide, high);
  root.dataset.painted = String(Number(root.dataset.painted ?? 0) + 1);
}

// How opaque the regions of an aggregate are, of the least and of the most value.
const FAINTEST = 0.1, DARKEST = 0.7;
const shaded = (query) => query.shades ? query.shades.regions : [];

function trace(rings) {
  pen.beginPath();
  rings.forEach((ring) => { stroke(ring); pen.closePath(); });
}

function outline(rings, colour, fill, dash) {
  trace(rings);
  pen.strokeStyle = pen.fillStyle = colour;
  pen.globalAlpha = fill;
  pen.fill("evenodd");
  pen.globalAlpha = 1;
  pen.lineWidth = 1.5;
  pen.setLineDash(dash);
  pen.stroke();
  pen.setLineDash([]);
}

function paintCells() {
  if (!state.cells) return;
  const [x1, y1, x2, y2] = state.cells.bounds, rows = state.cells.owners.length, columns = state.cells.owners[0].length;
  pen.globalAlpha = 0.16;
  state.cells.owners.forEach((owners, row) => owners.forEach((slot, column) => {
    const left = px(x1 + (x2 - x1) * column / columns), right = px(x1 + (x2 - x1) * (column + 1) / columns);
    const low = py(y1 + (y2 - y1) * row / rows), top = py(y1 + (y2 - y1) * (row + 1) / rows);
    if (slot < 0) return;
    pen.fillStyle = slotHue(slot);
    pen.fillRect(left, top, right - left, low - top);
  }));
  pen.globalAlpha = 1;
}

// A colour as the four bytes of a point of an image.
function bytes(colour, opacity) {
  pen.fillStyle = colour;      // which the canvas writes as #rrggbb
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(pen.fillStyle.slice(at, at + 2), 16));
  return ((Math.round(opacity * 255) << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

// Squares at the places of very many objects: their points are written directly, a million of them in a few
// milliseconds, where a call of the canvas for each square takes a microsecond.
let sheet = null;
function clearSheet() {
  const { width, height } = canvas;
  if (sheet?.image.width !== width || sheet.image.height !== height) {
    const drawing = Object.assign(document.createElement("canvas"), { width, height });
    const image = new ImageData(width, height);
    sheet = { drawing, image, pen: drawing.getContext("2d", { willReadFrequently: true }), points: new Uint32Array(image.data.buffer) };
  }
  sheet.points.fill(0);
}

function paintSheet() {
  sheet.pen.putImageData(sheet.image, 0, 0);
  pen.save();
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.drawImage(sheet.drawing, 0, 0);
  pen.restore();
}

function dots(count, which, colour, side) {
  const { x, y } = scene.objects, { points } = sheet, { width, height } = canvas, ratio = width / canvas.clientWidth;
  const across = view.scale * flat() * ratio, up = view.scale * ratio, size = Math.max(1, Math.round(side * ratio));
  const left = width / 2 - view.x * across - size / 2, top = height / 2 + view.y * up - size / 2;
  for (let n = 0; n < count; n++) {
    const i = which(n), column = Math.round(left + x[i] * across), row = Math.round(top - y[i] * up);
    if (!(column >= 0 && row >= 0 && column + size <= width && row + size <= height)) continue;
    const value = colour(i);
    for (let line = row * width + column, end = line + size * width; line < end; line += width)
      for (let at = line; at < line + size; at++) points[at] = value;
  }
}

function paintAllShapes() {
  if (!chosen.slots) return paintShapes(() => true, css("--dot"), 0.12);
  const { slot } = scene.objects;
  [...new Set(slot)].forEach((one) => paintShapes((i) => slot[i] === one, one >= 0 ? slotHue(one) : css("--dot"), 0.12));
}

function paintObjects() {
  const { x, slot } = scene.objects, many = x.length > 5000, opacity = many ? 0.7 : 0.9;
  const plain = bytes(css("--dot"), opacity), hues = new Map([...new Set(chosen.slots ? slot : [])].map((one) => [one, bytes(slotHue(one), opacity)]));
  dots(x.length, (n) => n, chosen.slots ? (i) => slot[i] >= 0 ? hues.get(slot[i]) : plain : () => plain, many ? 2 : 3.5);
}

// The shapes of objects that are no points; `which` tells whether an object is painted. A shape is filled on its
// own, because two that overlap would leave a hole; of very many only the lines are painted.
const MOST_FILLED = 5000;
function paintShapes(which, colour, fill) {
  const { shapes } = scene.objects;
  if (!shapes) return;
  const { of, solid, lines } = shapes;
  pen.lineWidth = 1.2;
  pen.beginPath();
  lines.forEach((line, n) => { if (which(of[n])) stroke(line); });
  pen.strokeStyle = pen.fillStyle = colour;
  pen.stroke();
  if (lines.length > MOST_FILLED) return;
  pen.globalAlpha = fill;
  for (let n = 0; n < lines.length;) {
    const owner = of[n];
    pen.beginPath();
    for (; n < lines.length && of[n] === owner; n++) if (solid[n] && which(owner)) stroke(lines[n]);
    pen.fill("evenodd");
  }
  pen.globalAlpha = 1;
}

function stroke(line) {
  line.forEach(([x, y], i) => i ? pen.lineTo(px(x), py(y)) : pen.moveTo(px(x), py(y)));
}

function spokes(query, colour) {
  if (query.kind !== "nearest" || !query.centre) return;
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.globalAlpha = 0.7;
  pen.beginPath();
  query.members.forEach((i) => {
    pen.moveTo(px(query.centre[0]), py(query.centre[1]));
    pen.lineTo(px(scene.objects.x[i]), py(scene.objects.y[i]));
  });
  pen.stroke();
  pen.globalAlpha = 1;
}

const MOST_LETTERS = 400;
function manyMembers(query, colour) {
  if (query.members.length <= MOST_LETTERS) return;
  const value = bytes(colour, 1);
  dots(query.members.length, (n) => query.members[n], () => value, 5);
}

function members(query, colour) {
  if (query.members.length > MOST_LETTERS) return;
  pen.fillStyle = colour;
  pen.font = "700 9px ui-monospace, monospace";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  query.members.forEach((i) => {
    const left = px(scene.objects.x[i]), top = py(scene.objects.y[i]);
    pen.beginPath();
    pen.arc(left, top, 6.5, 0, 2 * Math.PI);
    pen.fill();
    pen.fillStyle = css("--paper");
    pen.fillText(query.letter, left, top + 0.5);
    pen.fillStyle = colour;
  });
}

function centre(query, colour) {
  if (!query.centre) return;
  const left = px(query.centre[0]), top = py(query.centre[1]);
  pen.strokeStyle = colour;
  pen.lineWidth = 2;
  pen.beginPath();
  pen.moveTo(left - 8, top); pen.lineTo(left + 8, top);
  pen.moveTo(left, top - 8); pen.lineTo(left, top + 8);
  if (query.focal !== null) pen.rect(left - 5, top - 5, 10, 10);
  pen.stroke();
}

function ring() {
  const at = hovered >= 0 ? hovered : pinned === null ? -1 : scene.objects.keys.indexOf(pinned);
  if (at < 0) return;
  pen.strokeStyle = css("--ink");
  pen.lineWidth = 2;
  pen.beginPath();
  pen.arc(px(scene.objects.x[at]), py(scene.objects.y[at]), 10, 0, 2 * Math.PI);
  pen.stroke();
}

let labels = [];
function label(rings, text, colour) {
  let top = Infinity, left = Infinity, right = -Infinity;
  rings.forEach((ring) => ring.forEach(([x, y]) => { top = Math.min(top, py(y)); left = Math.min(left, px(x)); right = Math.max(right, px(x)); }));
  pen.font = "600 12px system-ui, sans-serif";
  const wide = pen.measureText(text).width;
  if (!rings.length || right - left < wide / 2) return;
  const covers = (one) => one.left < left + wide && left < one.left + one.wide && Math.abs(one.top - top) < 14;
  while (labels.some(covers)) top -= 14;
  labels.push({ left, top, wide });
  pen.textAlign = "left";
  pen.textBaseline = "bottom";
  pen.lineWidth = 3;
  pen.strokeStyle = css("--paper");
  pen.strokeText(text, left + 2, top - 2);
  pen.fillStyle = colour;
  pen.fillText(text, left + 2, top - 2);
}

function nice(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * (rough >= 5 * power ? 5 : rough >= 2 * power ? 2 : 1);
}

function ticks(low, high, most) {
  let step = nice((high - low) / most);
  while (step < (high - low) / most * 0.999999) step = nice(step * 2.6);
  const found = [];
  for (let number = Math.ceil(low / step); number * step <= high; number++) found.push(number * step);
  return { step, found };
}

function grid(wide, high) {
  pen.strokeStyle = css("--line");
  pen.lineWidth = 0.5;
  pen.beginPath();
  ticks(worldX(0), worldX(wide), Math.max(2, wide / 130)).found.forEach((x) => { pen.moveTo(px(x), 0); pen.lineTo(px(x), high); });
  ticks(worldY(high), worldY(0), Math.max(2, high / 130)).found.forEach((y) => { pen.moveTo(0, py(y)); pen.lineTo(wide, py(y)); });
  pen.stroke();
}

function frame(wide, high) {
  const write = (value, step) => value.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  pen.strokeStyle = pen.fillStyle = css("--faint");
  pen.lineWidth = 1;
  pen.font = "11px system-ui, sans-serif";
  pen.strokeRect(0.5, 0.5, wide - 1, high - 1);
  pen.textAlign = "center";
  pen.textBaseline = "bottom";
  const across = ticks(worldX(0), worldX(wide), Math.max(2, wide / 130));
  across.found.forEach((x) => {
    pen.beginPath(); pen.moveTo(px(x), high); pen.lineTo(px(x), high - 6); pen.stroke();
    if (px(x) > 30 && px(x) < wide - 30) pen.fillText(write(x, across.step), px(x), high - 7);
  });
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  const down = ticks(worldY(high), worldY(0), Math.max(2, high / 130));
  down.found.forEach((y) => {
    pen.beginPath(); pen.moveTo(0, py(y)); pen.lineTo(6, py(y)); pen.stroke();
    if (py(y) > 60 && py(y) < high - 30) pen.fillText(write(y, down.step), 9, py(y));
  });
  const metres = (state.planar ? 1 : 111195) / view.scale, length = nice(130 * metres), bar = length / metres;
  const text = state.planar ? String(length) : length >= 1000 ? length / 1000 + " km" : length + " m";
  pen.lineWidth = 2;
  pen.beginPath();
  pen.moveTo(44, high - 40); pen.lineTo(44, high - 34); pen.lineTo(44 + bar, high - 34); pen.lineTo(44 + bar, high - 40);
  pen.stroke();
  pen.fillText(text, 50, high - 44);
}
