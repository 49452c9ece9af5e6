// One state at a time: what the session wrote last. The view and the choices live in the address's hash, so
// that they outlast a reload.
let state = JSON.parse(document.getElementById("state").textContent);
const view = { x: 0, y: 0, scale: 1, fitted: true };   // scale: pixels for a unit of y
const chosen = { off: new Set(), objects: true, regions: true, names: true, slots: false, theme: "" };
const canvas = document.getElementById("map"), pen = canvas.getContext("2d");
const root = document.documentElement, $ = (id) => document.getElementById(id);
const HUES = {
  light: ["#0a7d4f", "#b5179e", "#b45309", "#0e7490", "#c62828", "#3949ab", "#6d7a00", "#8d4b2b"],
  dark: ["#3ddc97", "#f472d0", "#fbbf24", "#38d6f0", "#ff7b72", "#8ea2ff", "#c6d64a", "#dfa07d"],
};
let hovered = -1, pinned = null, wanted = 0;

const dark = () => chosen.theme === "dark" || (!chosen.theme && matchMedia("(prefers-color-scheme: dark)").matches);
const hue = (number) => { const hues = HUES[dark() ? "dark" : "light"]; return hues[number % hues.length]; };
const slotHue = (slot) => `hsl(${(slot * 137.5 + 25) % 360} 55% ${dark() ? 65 : 42}%)`;
const flat = () => state.planar ? 1 : Math.max(0.05, Math.cos(view.y * Math.PI / 180));
const px = (x) => canvas.clientWidth / 2 + (x - view.x) * view.scale * flat();
const py = (y) => canvas.clientHeight / 2 - (y - view.y) * view.scale;
const worldX = (left) => view.x + (left - canvas.clientWidth / 2) / view.scale / flat();
const worldY = (top) => view.y - (top - canvas.clientHeight / 2) / view.scale;
const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

// ---- where the map looks ----
function extent() {
  let box = null;
  const take = (x, y) => {
    if (!Number.isFinite(x) || !Number.isFinite(y)) return;
    box ??= [x, y, x, y];
    box = [Math.min(box[0], x), Math.min(box[1], y), Math.max(box[2], x), Math.max(box[3], y)];
  };
  state.objects.x.forEach((x, i) => take(x, state.objects.y[i]));
  const corners = (rings) => rings.forEach((ring) => ring.forEach(([x, y]) => take(x, y)));
  state.queries.forEach((query) => corners(query.rings));
  if (!box) state.areas.forEach((area) => corners(area.rings));
  return box ?? (state.planar ? [-1, -1, 1, 1] : [-180, -85, 180, 85]);
}

function fit() {
  const [x1, y1, x2, y2] = extent(), least = (Math.abs(x1) + Math.abs(x2)) * 1e-6 + 1e-4;
  view.x = (x1 + x2) / 2;
  view.y = (y1 + y2) / 2;
  const wide = Math.max(x2 - x1, least) * flat(), high = Math.max(y2 - y1, least), room = canvas.clientWidth;
  const legend = document.querySelector("aside").offsetWidth + 24, side = room > 3 * legend ? legend : 0;
  view.scale = Math.min((room - side - 90) / wide, (canvas.clientHeight - 110) / high);
  view.x += side / 2 / view.scale / flat();
  view.fitted = true;
}

function zoom(factor, left = canvas.clientWidth / 2, top = canvas.clientHeight / 2) {
  const x = worldX(left), y = worldY(top);
  view.scale = Math.min(Math.max(view.scale * factor, state.planar ? 1e-12 : 0.5), state.planar ? 1e9 : 1e8);
  view.y += y - worldY(top);
  view.x += x - worldX(left);
  moved();
}

function pan(left, top) {
  view.x -= left / view.scale / flat();
  view.y += top / view.scale;
  if (!state.planar) view.y = Math.min(Math.max(view.y, -90), 90);
  moved();
}

function moved() {
  view.fitted = false;
  remember();
  draw();
}

let remembering = 0;
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(() => {
    const said = new URLSearchParams();
    if (!view.fitted) ["x", "y", "scale"].forEach((name) => said.set(name, String(Number(view[name].toPrecision(10)))));
    if (chosen.off.size) said.set("off", [...chosen.off].join("\n"));
    ["objects", "regions", "names", "slots"].forEach((name) => said.set(name, chosen[name] ? "1" : "0"));
    if (chosen.theme) said.set("theme", chosen.theme);
    history.replaceState(null, "", "#" + said);
  }, 120);
}

function recall() {
  const said = new URLSearchParams(location.hash.slice(1)), scale = Number(said.get("scale"));
  ["objects", "regions", "names", "slots"].forEach((name) => { if (said.has(name)) chosen[name] = said.get(name) === "1"; });
  if (said.has("off")) chosen.off = new Set(said.get("off").split("\n"));
  chosen.theme = ["light", "dark"].includes(said.get("theme")) ? said.get("theme") : "";
  if (chosen.theme) root.dataset.theme = chosen.theme;
  if (!(scale > 0)) return fit();
  Object.assign(view, { x: Number(said.get("x")), y: Number(said.get("y")), scale, fitted: false });
}

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
  const shown = state.queries.map((query, number) => ({ query, number })).filter(({ query }) => !chosen.off.has(query.name));
  if (chosen.slots) paintCells();
  if (chosen.regions) {
    state.areas.forEach((area) => outline(area.rings, css("--faint"), 0.04, [5, 4]));
    shown.forEach(({ query, number }) => outline(query.rings, hue(number), 0.1, []));
  }
  shown.forEach(({ query, number }) => spokes(query, hue(number)));
  if (chosen.objects) paintObjects();
  shown.forEach(({ query, number }) => members(query, hue(number)));
  shown.forEach(({ query, number }) => centre(query, hue(number)));
  ring();
  labels = [];
  if (chosen.names && chosen.regions) {
    state.areas.forEach((area) => label(area.rings, area.name, css("--faint")));
    shown.forEach(({ query, number }) => label(query.rings, query.name, hue(number)));
  }
  frame(wide, high);
  root.dataset.painted = String(Number(root.dataset.painted ?? 0) + 1);
}

function trace(rings) {
  pen.beginPath();
  rings.forEach((ring) => {
    ring.forEach(([x, y], i) => i ? pen.lineTo(px(x), py(y)) : pen.moveTo(px(x), py(y)));
    pen.closePath();
  });
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
    pen.fillStyle = slotHue(slot);
    pen.fillRect(left, top, right - left, low - top);
  }));
  pen.globalAlpha = 1;
}

function paintObjects() {
  const { x, y, slot } = state.objects, size = x.length > 5000 ? 2 : 3.5, wide = canvas.clientWidth, high = canvas.clientHeight;
  pen.fillStyle = css("--dot");
  pen.globalAlpha = x.length > 5000 ? 0.7 : 0.9;
  for (let i = 0; i < x.length; i++) {
    const left = px(x[i]), top = py(y[i]);
    if (left < 0 || top < 0 || left > wide || top > high) continue;
    if (chosen.slots && slot[i] >= 0) pen.fillStyle = slotHue(slot[i]);
    pen.fillRect(left - size / 2, top - size / 2, size, size);
  }
  pen.globalAlpha = 1;
}

function spokes(query, colour) {
  if (query.kind !== "nearest" || !query.centre) return;
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.globalAlpha = 0.7;
  query.members.forEach((i) => {
    pen.beginPath();
    pen.moveTo(px(query.centre[0]), py(query.centre[1]));
    pen.lineTo(px(state.objects.x[i]), py(state.objects.y[i]));
    pen.stroke();
  });
  pen.globalAlpha = 1;
}

function members(query, colour) {
  pen.fillStyle = colour;
  pen.font = "700 9px ui-monospace, monospace";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  const lettered = query.members.length <= 400;
  query.members.forEach((i) => {
    const left = px(state.objects.x[i]), top = py(state.objects.y[i]);
    pen.beginPath();
    pen.arc(left, top, lettered ? 6.5 : 3, 0, 2 * Math.PI);
    pen.fill();
    if (!lettered) return;
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
  const at = hovered >= 0 ? hovered : pinned === null ? -1 : state.objects.keys.indexOf(pinned);
  if (at < 0) return;
  pen.strokeStyle = css("--ink");
  pen.lineWidth = 2;
  pen.beginPath();
  pen.arc(px(state.objects.x[at]), py(state.objects.y[at]), 10, 0, 2 * Math.PI);
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

// ---- the legend ----
function element(name, parts, kind) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.append(...parts);
  return made;
}

function toggle(list, id, checked, parts, change) {
  const box = document.createElement("input");
  box.type = "checkbox";
  box.id = id;
  box.checked = checked;
  box.addEventListener("change", () => { change(box.checked); remember(); draw(); });
  const item = element("li", [element("label", [box, ...parts])]);
  list.append(item);
  return item;
}

function legend() {
  const queries = $("queries"), layers = $("layers"), focus = document.activeElement?.id;
  queries.replaceChildren();
  state.queries.forEach((query, number) => {
    const swatch = element("span", [query.letter], "swatch");
    swatch.style.background = hue(number);
    if (dark()) swatch.style.color = "#12161c";
    const parts = [swatch, element("span", [query.name], "name"), element("span", [String(query.size)], "size")];
    const item = toggle(queries, "query-" + query.name, !chosen.off.has(query.name), parts, (on) => chosen.off[on ? "delete" : "add"](query.name));
    const focal = query.focalKey !== null && query.focal === null ? ` · ${query.focalKey} is not there` : "";
    item.append(element("div", [query.about + focal + (query.state === "active" ? "" : " · " + query.state)], "text"));
    item.title = query.text;
  });
  if (state.leftOut) queries.append(element("li", [`${state.leftOut} more queries are not drawn`], "text"));
  layers.replaceChildren();
  [["objects", "objects"], ["regions", "regions"], ["names", "names"], ["slots", "colour by slot"]].forEach(([name, text]) =>
    toggle(layers, "layer-" + name, chosen[name], [element("span", [text], "name")], (on) => { chosen[name] = on; }));
  if (focus) $(focus)?.focus();
}

function tell() {
  document.title = $("title").textContent = `${state.stream} · ${state.session}`;
  $("when").textContent = state.step ? `step ${state.step}  ${state.at ?? ""}` : "no step yet";
  const { there, keys } = state.objects;
  $("sample").textContent = keys.length < there ? `${keys.length} of ${there} objects: a sample` : `${there} objects`;
  root.dataset.step = String(state.step);
  news();
}

function news() {
  const silent = Date.now() - state.written > state.patience * 1000;
  const since = new Date(state.written).toISOString().slice(0, 19) + "Z";
  $("status").textContent = state.ended ?? (silent ? `no news since ${since}: the map was left, or the session has ended` : state.status);
  $("status").classList.toggle("over", Boolean(state.ended) || silent);
}

// ---- what comes anew ----
function take(next) {
  if (!next.objects) return;
  const began = state.objects.x.length === 0;
  state = next;
  if (began && view.fitted) fit();
  hovered = -1;
  legend();
  tell();
  show();
  draw();
}

// ---- records ----
function nearest(left, top) {
  let best = -1, least = 14 ** 2;
  for (let i = 0; i < state.objects.x.length; i++) {
    const far = (px(state.objects.x[i]) - left) ** 2 + (py(state.objects.y[i]) - top) ** 2;
    if (far < least) { least = far; best = i; }
  }
  return best;
}

function show() {
  const at = hovered >= 0 ? hovered : pinned === null ? -1 : state.objects.keys.indexOf(pinned), table = $("record");
  table.style.display = at < 0 ? "none" : "block";
  if (at < 0) return;
  const row = (name, value) => element("tr", [element("td", [name]), element("td", [value === null ? "" : String(value)])]);
  const inside = state.queries.filter((query) => query.members.includes(at)).map((query) => query.name).join(", ");
  const rows = Object.entries(state.objects.columns).map(([name, values]) => row(name, values[at]));
  if (state.objects.slot[at] >= 0) rows.push(row("slot", state.objects.slot[at]));
  if (inside) rows.push(row("in", inside));
  table.replaceChildren(...rows);
  const left = px(state.objects.x[at]) + 14, top = py(state.objects.y[at]) + 14;
  table.style.left = `${Math.max(4, Math.min(left, innerWidth - table.offsetWidth - 8))}px`;
  table.style.top = `${Math.max(4, Math.min(top, innerHeight - table.offsetHeight - 8))}px`;
}

// ---- hands ----
const fingers = new Map();
let dragged = 0;
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, [event.clientX, event.clientY]);
  dragged = 0;
  canvas.classList.add("moving");
});
canvas.addEventListener("pointermove", (event) => {
  const before = fingers.get(event.pointerId);
  if (!before) {
    const at = nearest(event.clientX, event.clientY);
    if (at !== hovered) { hovered = at; show(); draw(); }
    return;
  }
  const now = [event.clientX, event.clientY], other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
  fingers.set(event.pointerId, now);
  dragged += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
  if (!other) return pan(now[0] - before[0], now[1] - before[1]), show();
  const span = (one) => Math.max(1, Math.hypot(one[0] - other[0], one[1] - other[1]));
  pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
  zoom(span(now) / span(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
  show();
});
for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => {
  if (name === "pointerup" && fingers.size === 1 && dragged < 6) {
    const at = nearest(event.clientX, event.clientY);
    pinned = at < 0 ? null : state.objects.keys[at];
    show();
    draw();
  }
  fingers.delete(event.pointerId);
  if (!fingers.size) canvas.classList.remove("moving");
});
canvas.addEventListener("pointerleave", () => { hovered = -1; show(); draw(); });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.clientX, event.clientY);
  show();
}, { passive: false });
const fitAgain = () => { fit(); remember(); draw(); show(); };
const KEYS = {
  "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), "0": fitAgain, "f": fitAgain,
  "ArrowLeft": () => pan(80, 0), "ArrowRight": () => pan(-80, 0), "ArrowUp": () => pan(0, 80), "ArrowDown": () => pan(0, -80),
  "Escape": () => { pinned = null; show(); draw(); },
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
  show();
});
$("nearer").addEventListener("click", () => zoom(1.4));
$("farther").addEventListener("click", () => zoom(1 / 1.4));
$("fit").addEventListener("click", fitAgain);
$("theme").addEventListener("click", () => {
  root.dataset.theme = chosen.theme = dark() ? "light" : "dark";
  legend(); remember(); draw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { legend(); draw(); });
new ResizeObserver(draw).observe(canvas);

// ---- staying live: events where the page is served, else the file itself, read in a hidden frame ----
let heard = false, missed = 0, reading = null;
function readFile() {
  if (reading) {
    reading.remove();
    if (++missed >= 5 && !heard) { location.reload(); return; }   // a browser that frames no files
  }
  reading = document.createElement("iframe");
  reading.src = location.href.split("#")[0].split("?")[0] + "?" + Date.now() + "#feed=" + encodeURIComponent(state.stamp);
  document.body.append(reading);
}
addEventListener("message", (event) => {
  if (!reading || event.source !== reading.contentWindow || !event.data?.stqsh) return;
  heard = true;
  missed = 0;
  reading.remove();
  reading = null;
  take(event.data.stqsh);
});
if (location.protocol === "file:") {
  let waited = 0;
  setInterval(() => {
    news();
    waited += 1;
    const every = reading ? 8 : state.ended ? 5 : state.every;
    if (!document.hidden && waited >= every) { waited = 0; readFile(); }
  }, 1000);
} else {
  const events = new EventSource("events");
  events.onmessage = (event) => take(JSON.parse(event.data));
  events.onerror = () => { if (!state.ended) $("status").textContent = "the map is not served any more; trying again"; };
  setInterval(news, 5000);
}

recall();
legend();
tell();
draw();
