// ---- user input ----
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
    pinned = at < 0 ? null : scene.objects.keys[at];
    following = at >= 0;
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
  "Escape": () => { pinned = null; following = false; pause(); look(null); },
  " ": () => { if (!$("time").hidden) play(); },
};
addEventListener("keydown", (event) => {
  const inControl = ["INPUT", "BUTTON", "SUMMARY"].includes(document.activeElement?.tagName) && event.key !== "Escape";
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS) || (inControl && /^( |Arrow)/.test(event.key))) return;
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

// ---- live updates: server-sent events if the page is served, else the file reloaded in a hidden frame ----
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
} else if (location.protocol.startsWith("http")) {   // a frame of a notebook has one picture
  const events = new EventSource("events");
  events.onmessage = (event) => take(JSON.parse(event.data));
  events.onerror = () => { if (!state.ended) $("status").textContent = "the map is not served any more; trying again"; };
  setInterval(news, 5000);
}

if (innerWidth < 700) document.querySelector("details").open = false;
recall();
legend();
tell();
draw();
