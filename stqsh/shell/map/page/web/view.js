// One state at a time: what the session wrote last. The scene is what is shown: this state, or one before it. The
// view and the choices live in the address's hash, so that they outlast a reload.
let state = JSON.parse(document.getElementById("state").textContent), scene = prepared(state);
const view = { x: 0, y: 0, scale: 1, fitted: true };   // scale: pixels for a unit of y
const chosen = { off: new Set(), objects: true, regions: true, names: true, slots: false, trails: false, theme: "" };
const LAYERS = ["objects", "regions", "names", "trails", "slots"];
const canvas = document.getElementById("map"), pen = canvas.getContext("2d");
const root = document.documentElement, $ = (id) => document.getElementById(id);
const HUES = {
  light: ["#0a7d4f", "#b5179e", "#b45309", "#0e7490", "#c62828", "#3949ab", "#6d7a00", "#8d4b2b"],
  dark: ["#3ddc97", "#f472d0", "#fbbf24", "#38d6f0", "#ff7b72", "#8ea2ff", "#c6d64a", "#dfa07d"],
};
let hovered = -1, pinned = null, following = false, wanted = 0;

// Places as arrays of numbers: loops over very many objects are several times as fast.
function prepared(one) {
  for (const name of ["x", "y"]) one.objects[name] = Float64Array.from(one.objects[name]);
  return one;
}

const dark = () => chosen.theme === "dark" || (!chosen.theme && matchMedia("(prefers-color-scheme: dark)").matches);
const hue = (number) => { const hues = HUES[dark() ? "dark" : "light"]; return hues[number % hues.length]; };
const slotHue = (slot) => `hsl(${(slot * 137.5 + 25) % 360} 55% ${dark() ? 65 : 42}%)`;
const flat = () => state.planar ? 1 : Math.max(0.05, Math.cos(view.y * Math.PI / 180));
const px = (x) => canvas.clientWidth / 2 + (x - view.x) * view.scale * flat();
const py = (y) => canvas.clientHeight / 2 - (y - view.y) * view.scale;
const worldX = (left) => view.x + (left - canvas.clientWidth / 2) / view.scale / flat();
const worldY = (top) => view.y - (top - canvas.clientHeight / 2) / view.scale;
const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

// ---- the view ----
function extent() {
  let box = null;
  const take = (x, y) => {
    if (!Number.isFinite(x) || !Number.isFinite(y)) return;
    box ??= [x, y, x, y];
    box = [Math.min(box[0], x), Math.min(box[1], y), Math.max(box[2], x), Math.max(box[3], y)];
  };
  scene.objects.x.forEach((x, i) => take(x, scene.objects.y[i]));
  const corners = (rings) => rings.forEach((ring) => ring.forEach(([x, y]) => take(x, y)));
  corners(scene.objects.shapes?.lines ?? []);
  scene.queries.forEach((query) => { corners(query.rings); shaded(query).forEach(({ rings }) => corners(rings)); });
  if (!box) state.areas.forEach((area) => corners(area.rings));
  return box ?? (state.planar ? [-1, -1, 1, 1] : [-180, -85, 180, 85]);
}

function fit() {
  const [x1, y1, x2, y2] = extent(), least = (Math.abs(x1) + Math.abs(x2)) * 1e-6 + 1e-4;
  view.x = (x1 + x2) / 2;
  view.y = (y1 + y2) / 2;
  const wide = Math.max(x2 - x1, least) * flat(), high = Math.max(y2 - y1, least), room = canvas.clientWidth;
  const legend = document.querySelector("aside").offsetWidth + 24, side = innerWidth >= 700 && room > 2.4 * legend ? legend : 0;
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
  following = false;
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
    LAYERS.forEach((name) => said.set(name, chosen[name] ? "1" : "0"));
    if (chosen.theme) said.set("theme", chosen.theme);
    if (location.protocol !== "about:") history.replaceState(null, "", "#" + said);
  }, 120);
}

function recall() {
  const said = new URLSearchParams(location.hash.slice(1)), scale = Number(said.get("scale"));
  LAYERS.forEach((name) => { if (said.has(name)) chosen[name] = said.get(name) === "1"; });
  if (said.has("off")) chosen.off = new Set(said.get("off").split("\n"));
  chosen.theme = ["light", "dark"].includes(said.get("theme")) ? said.get("theme") : "";
  if (chosen.theme) root.dataset.theme = chosen.theme;
  if (!(scale > 0)) return fit();
  Object.assign(view, { x: Number(said.get("x")), y: Number(said.get("y")), scale, fitted: false });
}
