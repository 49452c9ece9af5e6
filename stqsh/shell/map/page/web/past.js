// ---- the past: a slider over the steps that the map has seen, and over the update log before them ----
let then = null, tracks = null, playing = 0;   // then: the step that is shown, null for now

const first = () => Math.min(state.past.step[0] ?? state.step, state.past.changes.step[0] ?? state.step);

// What the map showed after a step: objects where they had been seen last, and the answers by their changes.
function asOf(step) {
  const { keys, object, x, y, changes } = state.past, last = new Int32Array(keys.length).fill(-1), place = last.slice();
  for (let i = 0; i < object.length && state.past.step[i] <= step; i++) last[object[i]] = i;
  const objects = { x: [], y: [], slot: [], keys: [], there: 0 };
  last.forEach((i, number) => {
    if (i < 0 || x[i] === null) return;
    place[number] = objects.x.push(x[i]) - 1;
    objects.y.push(y[i]);
    objects.slot.push(-1);
    objects.keys.push(keys[number]);
  });
  objects.there = objects.keys.length;
  objects.columns = { [state.key]: objects.keys };
  const answers = state.queries.map(() => new Set());
  for (let i = 0; i < changes.step.length && changes.step[i] <= step; i++)
    answers[changes.query[i]][changes.op[i] > 0 ? "add" : "delete"](changes.object[i]);
  const queries = state.queries.map((query, number) => {
    const members = [...answers[number]].map((one) => place[one]).filter((one) => one >= 0);
    const size = query.aggregate ? "–" : answers[number].size;
    return { ...query, members, size, shades: null, ...shifted(query, place[keys.indexOf(query.focalKey)] ?? -1, objects) };
  });
  return { ...state, objects, queries };
}

// The past place of a region that moves with an object.
function shifted(query, focal, objects) {
  if (query.focalKey === null) return {};
  if (focal < 0 || !query.centre) return { rings: [], centre: null, focal: null };
  const centre = [objects.x[focal], objects.y[focal]], [east, north] = [centre[0] - query.centre[0], centre[1] - query.centre[1]];
  return { centre, focal, rings: query.rings.map((ring) => ring.map(([x, y]) => [x + east, y + north])) };
}

function timeOf(step) {
  return state.at ? new Date(Date.parse(state.at) - (state.step - step) * state.tick).toISOString().replace(".000Z", "Z") : "";
}

// Shows the state after a step, or the latest one.
function look(step) {
  then = step === null || step >= state.step ? null : Math.max(step, first());
  scene = prepared(then === null ? state : asOf(then));
  hovered = -1;
  follow();
  legend();
  tell();
  show();
  draw();
}

// The places of an object up to the step that is shown, oldest first; a gap where it was away.
function trail(key, most) {
  if (!tracks) {
    tracks = new Map(state.past.keys.map((one) => [one, []]));
    state.past.object.forEach((number, i) => tracks.get(state.past.keys[number]).push(i));
  }
  const seen = tracks.get(key) ?? [];
  return (then === null ? seen : seen.filter((i) => state.past.step[i] <= then)).slice(-most);
}

const MOST_TRAILS = 3000, SHORT = 20;
function paintTrails() {
  const { keys } = scene.objects, width = pinned === null ? 0 : 2;
  if (chosen.trails && keys.length <= MOST_TRAILS) keys.forEach((key) => paintTrail(trail(key, SHORT), css("--dot"), 1, 0.45));
  if (width) paintTrail(trail(pinned, Infinity), css("--ink"), width, 0.8);
}

function paintTrail(seen, colour, width, opacity) {
  let drawing = false;
  pen.beginPath();
  seen.forEach((i) => {
    const x = state.past.x[i], y = state.past.y[i];
    if (x !== null) drawing ? pen.lineTo(px(x), py(y)) : pen.moveTo(px(x), py(y));
    drawing = x !== null;
  });
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.globalAlpha = opacity;
  pen.stroke();
  pen.globalAlpha = 1;
}

// The view follows the clicked object until the view is dragged or Escape is pressed.
function follow() {
  const at = following ? scene.objects.keys.indexOf(pinned) : -1;
  if (at < 0) return;
  view.x = scene.objects.x[at];
  view.y = scene.objects.y[at];
  view.fitted = false;
}

function clock() {
  const slider = $("slider");
  $("time").hidden = first() >= state.step;
  slider.min = first();
  slider.max = state.step;
  slider.value = then ?? state.step;
  $("then").textContent = then === null ? "now" : `step ${then}  ${timeOf(then)}`;
  $("now").disabled = then === null;
  $("play").textContent = playing ? "❚❚" : "▶";
}

function pause() {
  clearInterval(playing);
  playing = 0;
}

function play() {
  if (playing) return pause(), clock();
  const stride = Math.max(1, Math.round((state.step - first()) / 200));
  if (then === null) look(first());
  playing = setInterval(() => {
    if (then === null || then + stride >= state.step) pause();
    look(then === null ? null : then + stride);
  }, 100);
  clock();
}

$("slider").addEventListener("input", (event) => { pause(); look(Number(event.target.value)); });
$("play").addEventListener("click", play);
$("now").addEventListener("click", () => { pause(); look(null); });
