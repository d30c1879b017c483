// Colors, dots, arrows and maps of the plane.

import { colorOf, hue } from "../draw.js";

export const rgb = (color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));

export const blend = (from, to, share) => from.map((value, n) => Math.round(value + (to[n] - value) * share));

export function decoded(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

export function dot(context, x, y, radius, color, edge, width) {
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.fillStyle = color;
  context.fill();
  if (width > 0) { context.strokeStyle = edge; context.lineWidth = width; context.stroke(); }
}

export function arrow(context, x, y, toX, toY, sharp) {
  const length = Math.hypot(toX - x, toY - y);
  if (!(length > 1.5 * sharp)) return;
  const head = Math.min(5 * sharp, length / 2), angle = Math.atan2(toY - y, toX - x);
  context.lineWidth = 1.1 * sharp;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(toX, toY);
  context.stroke();
  context.beginPath();
  context.moveTo(toX, toY);
  context.lineTo(toX - head * Math.cos(angle - 0.45), toY - head * Math.sin(angle - 0.45));
  context.lineTo(toX - head * Math.cos(angle + 0.45), toY - head * Math.sin(angle + 0.45));
  context.fill();
}

// The colors of 256 values of a map, as they look on this page: light or dark.
function palette(look) {
  const sheet = rgb(colorOf("sheet")), low = rgb(colorOf("second")), high = rgb(colorOf("accent"));
  const crossing = look.kind === "discriminator" || (look.low < 0 && look.high > 0);
  return (value) => {
    const share = value / 255;
    if (look.kind === "density") return blend(sheet, high, 0.85 * Math.sqrt(share));
    if (crossing) return share < 0.5 ? blend(sheet, low, 0.75 * (1 - 2 * share)) : blend(sheet, high, 0.75 * (2 * share - 1));
    return blend(sheet, high, 0.75 * share);
  };
}

// A map as a small canvas, one pixel for each cell; whoever draws it smooths it.
export function mapOf(look, target = document.createElement("canvas")) {
  const { cells } = look, image = new ImageData(cells, cells);
  target.width = target.height = cells;
  if (look.kind === "classes") {
    const labels = decoded(look.label), sure = decoded(look.confidence), sheet = rgb(colorOf("sheet"));
    const hues = new Map([...new Set(labels)].map((label) => [label, rgb(hue(label))]));
    for (let n = 0; n < labels.length; n += 1) image.data.set([...blend(sheet, hues.get(labels[n]), 0.06 + 0.5 * (sure[n] / 255)), 255], 4 * n);
  } else {
    const values = decoded(look.values), color = palette(look), shades = Array.from({ length: 256 }, (_, value) => color(value));
    for (let n = 0; n < values.length; n += 1) image.data.set([...shades[values[n]], 255], 4 * n);
  }
  target.getContext("2d").putImageData(image, 0, 0);
  return target;
}

export function bytes(canvas) {
  return canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
}
