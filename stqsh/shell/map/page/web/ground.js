// ---- the background: the outline of the land, and map tiles if a setting has their address ----
const LAND = (() => {
  const { rings, scale } = JSON.parse($("land").textContent);
  return rings.map((differences) => {
    const ring = [];
    for (let i = 0, x = 0, y = 0; i < differences.length; i += 2) ring.push([(x += differences[i]) / scale, (y += differences[i + 1]) / scale]);
    return ring;
  });
})();

// Clip a ring to one side of a straight line: a step of Sutherland and Hodgman.
function cut(ring, isInside, crossing) {
  const kept = [];
  ring.forEach((corner, i) => {
    const before = ring[(i || ring.length) - 1];
    if (isInside(corner) !== isInside(before)) kept.push(crossing(before, corner));
    if (isInside(corner)) kept.push(corner);
  });
  return kept;
}

function within(ring, [west, south, east, north]) {
  const atX = (x) => (a, b) => [x, a[1] + (b[1] - a[1]) * (x - a[0]) / (b[0] - a[0])];
  const atY = (y) => (a, b) => [a[0] + (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1]), y];
  ring = cut(ring, ([x]) => x >= west, atX(west));
  ring = cut(ring, ([x]) => x <= east, atX(east));
  ring = cut(ring, ([, y]) => y >= south, atY(south));
  return cut(ring, ([, y]) => y <= north, atY(north));
}

function paintGround(wide, high) {
  if (state.planar) return;
  const edge = 8, box = [worldX(-edge), worldY(high + edge), worldX(wide + edge), worldY(-edge)];
  pen.fillStyle = css("--sea");
  pen.fillRect(0, py(90), wide, py(-90) - py(90));
  pen.beginPath();
  for (const turn of [-360, 0, 360]) {
    if (turn + 180 < box[0] || turn - 180 > box[2]) continue;
    const seen = [box[0] - turn, box[1], box[2] - turn, box[3]];
    LAND.forEach((ring) => {
      within(ring, seen).forEach(([x, y], i) => i ? pen.lineTo(px(x + turn), py(y)) : pen.moveTo(px(x + turn), py(y)));
      pen.closePath();
    });
  }
  pen.fillStyle = css("--paper");
  pen.strokeStyle = css("--coast");
  pen.lineWidth = 1;
  pen.fill("evenodd");
  pen.stroke();
  paintTiles(wide, high);
}

const tiles = new Map(), MOST_TILES = 300;
function tile(zoom, x, y) {
  const across = 2 ** zoom, name = `${zoom}/${x}/${y}`;
  let image = tiles.get(name);
  if (!image) {
    image = new Image();
    image.onload = draw;
    image.src = state.tiles.replaceAll("{z}", zoom).replaceAll("{x}", ((x % across) + across) % across).replaceAll("{y}", y);
  }
  tiles.delete(name);       // the map keeps its order: what was used last comes last
  tiles.set(name, image);
  if (tiles.size > MOST_TILES) tiles.delete(tiles.keys().next().value);
  return image.complete && image.naturalWidth ? image : null;
}

// Tiles are in Mercator's projection; strips of them are stretched to where they belong.
function paintTiles(wide, high) {
  if (state.tiles === "off") return;
  const mercator = (y) => 0.5 - Math.asinh(Math.tan(y * Math.PI / 180)) / 2 / Math.PI;
  const latitude = (down) => Math.atan(Math.sinh((0.5 - down) * 2 * Math.PI)) * 180 / Math.PI;
  const bounded = (y) => Math.min(Math.max(y, -85), 85);
  const zoom = Math.min(19, Math.max(0, Math.round(Math.log2(360 * view.scale * flat() / 256)))), across = 2 ** zoom;
  const column = (x) => Math.floor((x + 180) / 360 * across), row = (y) => Math.min(across - 1, Math.floor(mercator(bounded(y)) * across));
  const strips = zoom < 8 ? 16 : 1;
  for (let y = row(worldY(0)); y <= row(worldY(high)); y++) for (let x = column(worldX(0)); x <= column(worldX(wide)); x++) {
    const image = tile(zoom, x, y);
    if (!image) continue;
    const left = px(x / across * 360 - 180), right = px((x + 1) / across * 360 - 180), part = image.naturalHeight / strips;
    for (let strip = 0; strip < strips; strip++) {
      const top = py(latitude((y + strip / strips) / across)), low = py(latitude((y + (strip + 1) / strips) / across));
      pen.drawImage(image, 0, strip * part, image.naturalWidth, part, left, top, right - left + 0.5, low - top + 0.5);
    }
  }
}
