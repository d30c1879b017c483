// Ink of curves on a canvas: few with smooth lines, many by setting pixels, which stays quick with hundreds of them.

const MOST_SMOOTH = 24;
const MOST_BANDS = 8;

// series: {x, low, mean, high (typed arrays, NaN where nothing is), color "#rrggbb", dashed, faint}; place: {x(value), y(value)}, in
// pixels of the canvas. `front` is the number of the series that is pointed at: it is drawn last, with its band.
export function ink(canvas, series, place, front = -1) {
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  const order = series.map((_, n) => n).filter((n) => n !== front);
  if (front >= 0 && front < series.length) order.push(front);
  const smooth = series.length <= MOST_SMOOTH, banded = series.length <= MOST_BANDS;
  if (smooth) {
    for (const n of order) paths(context, series[n], place, banded || n === front, front >= 0 && n !== front, n === front);
    return;
  }
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const columns = new Map();  // of the places on the x axis, which curves of one answer share
  for (const { x } of series) if (!columns.has(x)) columns.set(x, Int32Array.from(x, (value) => Math.round(place.x(value))));
  for (const n of order) if (n !== front) pixelsOf(pixels, canvas, series[n], columns.get(series[n].x), place.y, front >= 0);
  context.putImageData(image, 0, 0);
  if (front >= 0) paths(context, series[front], place, true, false, true);
}

function paths(context, one, place, band, faded, bold) {
  const sharp = window.devicePixelRatio || 1;
  context.globalAlpha = faded || one.faint ? 0.3 : 1;
  context.strokeStyle = context.fillStyle = one.color;
  if (band && one.low) {
    const before = context.globalAlpha;
    context.globalAlpha = 0.18 * before;
    for (const part of pieces(one.mean)) {
      context.beginPath();
      for (let i = part[0]; i <= part[1]; i += 1) if (!Number.isNaN(one.high[i])) context.lineTo(place.x(one.x[i]), place.y(one.high[i]) - 0.5);
      for (let i = part[1]; i >= part[0]; i -= 1) if (!Number.isNaN(one.low[i])) context.lineTo(place.x(one.x[i]), place.y(one.low[i]) + 0.5);
      context.fill();
    }
    context.globalAlpha = before;
  }
  context.lineWidth = (bold ? 2.2 : 1.5) * sharp;
  context.lineJoin = "round";
  context.setLineDash(one.dashed ? [6 * sharp, 4 * sharp] : []);
  context.beginPath();
  let points = 0;
  for (let i = 0; i < one.mean.length; i += 1) {
    if (Number.isNaN(one.mean[i])) continue;
    context.lineTo(place.x(one.x[i]), place.y(one.mean[i]));
    points += 1;
  }
  context.stroke();
  context.setLineDash([]);
  if (points < 40) {  // few points are seen as such
    for (let i = 0; i < one.mean.length; i += 1) {
      if (Number.isNaN(one.mean[i])) continue;
      context.beginPath();
      context.arc(place.x(one.x[i]), place.y(one.mean[i]), 2.4 * sharp, 0, 7);
      context.fill();
    }
  }
  context.globalAlpha = 1;
}

// The first and the last point between which there is something.
function pieces(values) {
  let first = 0, last = values.length - 1;
  while (first <= last && Number.isNaN(values[first])) first += 1;
  while (last >= first && Number.isNaN(values[last])) last -= 1;
  return first < last ? [[first, last]] : [];
}

// The mean as a solid run of pixels in each column, the ends of the band as faint dots.
function pixelsOf(pixels, { width, height }, one, columns, y, faded) {
  const solid = packed(one.color, faded || one.faint ? 70 : 255), faint = packed(one.color, faded ? 40 : 110);
  let before = -1, level = 0;
  for (let i = 0; i < one.mean.length; i += 1) {
    if (Number.isNaN(one.mean[i])) continue;
    const column = columns[i], row = Math.round(y(one.mean[i]));
    if (one.low && column >= 0 && column < width) {
      dot(pixels, width, height, column, Math.round(y(one.low[i])), faint);
      dot(pixels, width, height, column, Math.round(y(one.high[i])), faint);
    }
    if (before >= 0) {
      const across = Math.max(1, column - before);
      for (let step = 0; step < across; step += 1) {
        const at = before + step;
        if (at < 0 || at >= width || (one.dashed && (at >> 3) & 1)) continue;
        const here = Math.round(level + ((row - level) * step) / across), next = Math.round(level + ((row - level) * (step + 1)) / across);
        const top = Math.max(0, Math.min(here, next)), bottom = Math.min(height - 1, Math.max(here, next));
        for (let p = top * width + at, last = bottom * width + at; p <= last; p += width) pixels[p] = solid;
      }
    }
    before = column;
    level = row;
  }
}

function dot(pixels, width, height, x, y, color) {
  const place = Math.max(0, Math.min(height - 1, y)) * width + x;
  if (!pixels[place]) pixels[place] = color;
}

// "#0072b2" as a pixel: alpha, blue, green, red.
function packed(color, alpha) {
  const n = parseInt(color.slice(1, 7), 16);
  return ((alpha << 24) | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
}
