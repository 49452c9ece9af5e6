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

function scale(shades, number) {
  const bar = element("span", [], "bar"), opacity = (share) => Math.round(share * 255).toString(16).padStart(2, "0");
  bar.style.background = `linear-gradient(to right, ${hue(number)}${opacity(FAINTEST)}, ${hue(number)}${opacity(DARKEST)})`;
  const ends = shades.regions.length ? [shades.least, bar, shades.most] : ["nothing yet"];
  // Two texts beside each other would be one item of the flex box, without a gap between them.
  return element("div", [element("span", [shades.column]), ...ends], "scale");
}

function legend() {
  const queries = $("queries"), layers = $("layers"), focus = document.activeElement?.id;
  queries.replaceChildren();
  scene.queries.forEach((query, number) => {
    const swatch = element("span", [query.letter], "swatch");
    swatch.style.background = hue(number);
    if (dark()) swatch.style.color = "#12161c";
    const parts = [swatch, element("span", [query.name], "name"), element("span", [String(query.size)], "size")];
    const item = toggle(queries, "query-" + query.name, !chosen.off.has(query.name), parts, (on) => chosen.off[on ? "delete" : "add"](query.name));
    const focal = query.focalKey !== null && query.focal === null ? ` · ${query.focalKey} ${then === null ? "is not there" : "was not seen"}` : "";
    item.append(element("div", [query.about + focal + (query.state === "active" ? "" : " · " + query.state)], "text"));
    if (query.shades) item.append(scale(query.shades, number));
    item.title = query.text;
  });
  if (state.leftOut) queries.append(element("li", [`${state.leftOut} more queries are not drawn`], "text"));
  layers.replaceChildren();
  [["objects", "objects"], ["regions", "regions"], ["names", "names"], ["trails", "trails"], ["slots", "colour by slot"]].forEach(([name, text]) =>
    toggle(layers, "layer-" + name, chosen[name], [element("span", [text], "name")], (on) => { chosen[name] = on; if (name === "slots") legend(); }));
  if (chosen.slots) {
    const slots = [...new Set(scene.objects.slot)].filter((slot) => slot >= 0).sort((a, b) => a - b);
    layers.append(element("li", slots.map((slot) => {
      const swatch = element("span", [String(slot)], "swatch");
      swatch.style.background = slotHue(slot);
      return swatch;
    }), "slots"));
  }
  if (focus) $(focus)?.focus();
}

function tell() {
  document.title = $("title").textContent = `${state.stream} · ${state.session}`;
  const step = then ?? state.step;
  $("when").textContent = step ? `step ${step}  ${then === null ? state.at ?? "" : timeOf(then)}` : "no step yet";
  const { there, keys } = scene.objects;
  $("sample").textContent = keys.length < there ? `${keys.length} of ${there} objects: a sample` : `${there} objects`;
  root.dataset.step = String(step);
  $("credit").textContent = state.planar ? "" : state.tiles === "off" ? "land: Natural Earth" : state.credit;
  clock();
  news();
}

function news() {
  const silent = Date.now() - state.written > state.patience * 1000;
  const since = new Date(state.written).toISOString().slice(0, 19) + "Z";
  $("status").textContent = state.ended ?? (silent ? `no news since ${since}: the map was left, or the session has ended` : state.status);
  $("status").classList.toggle("over", Boolean(state.ended) || silent);
}

// ---- live updates ----
function take(next) {
  if (!next.objects) return;
  const began = state.objects.x.length === 0;
  state = next;
  tracks = null;
  look(then);
  if (began && view.fitted) fit();
}

// ---- records ----
function nearest(left, top) {
  const { x, y } = scene.objects, across = view.scale * flat(), centre = [worldX(left), worldY(top)];
  let best = -1, least = 14 ** 2;
  for (let i = 0; i < x.length; i++) {
    const far = ((x[i] - centre[0]) * across) ** 2 + ((y[i] - centre[1]) * view.scale) ** 2;
    if (far < least) { least = far; best = i; }
  }
  return best >= 0 ? best : onShape(left, top);
}

// The object with a shape that holds a point of the screen, or has an edge near it; -1 for none.
function onShape(left, top) {
  const { of, solid, lines } = scene.objects.shapes ?? { lines: [] };
  let best = -1, least = 6 ** 2, within = false;
  lines.forEach((line, n) => {
    if (n === 0 || of[n] !== of[n - 1]) within = false;
    line.forEach(([x, y], i) => {
      const [x1, y1] = i ? [px(line[i - 1][0]), py(line[i - 1][1])] : [px(x), py(y)], [dx, dy] = [px(x) - x1, py(y) - y1];
      const along = Math.min(1, Math.max(0, ((left - x1) * dx + (top - y1) * dy) / (dx * dx + dy * dy || 1)));
      const far = (left - x1 - along * dx) ** 2 + (top - y1 - along * dy) ** 2;
      if (far < least) { least = far; best = of[n]; }
      if (solid[n] && (y1 > top) !== (y1 + dy > top) && left < x1 + (top - y1) / dy * dx) within = !within;
    });
    if (within && of[n] !== of[n + 1]) { least = 0; best = of[n]; }
  });
  return best;
}

function show() {
  const at = hovered >= 0 ? hovered : pinned === null ? -1 : scene.objects.keys.indexOf(pinned), table = $("record");
  table.style.display = at < 0 ? "none" : "block";
  if (at < 0) return;
  const row = (name, value) => element("tr", [element("td", [name]), element("td", [value === null ? "" : String(value)])]);
  const inside = scene.queries.filter((query) => query.members.includes(at)).map((query) => query.name).join(", ");
  const rows = Object.entries(scene.objects.columns).map(([name, values]) => row(name, values[at]));
  if (scene.objects.slot[at] >= 0) rows.push(row("slot", scene.objects.slot[at]));
  if (inside) rows.push(row("in", inside));
  if (scene.objects.keys[at] === pinned) rows.push(row("followed", "Esc leaves it"));
  table.replaceChildren(...rows);
  const left = px(scene.objects.x[at]) + 14, top = py(scene.objects.y[at]) + 14;
  table.style.left = `${Math.max(4, Math.min(left, innerWidth - table.offsetWidth - 8))}px`;
  table.style.top = `${Math.max(4, Math.min(top, innerHeight - table.offsetHeight - 8))}px`;
}
