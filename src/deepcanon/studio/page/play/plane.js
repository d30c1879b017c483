// The plane: what the model makes of it, the data on it, and points that move. Drawn on one canvas, with named axes around it.

import { Stage, colorOf, hue, scale } from "../draw.js";
import { h } from "../dom.js";
import { arrow, blend, bytes, dot, mapOf, rgb } from "./ink.js";

// plane({onDraw}) -> {node, scene(facts), show(frame), unit(layer, index), morph(share), size(), end()}
export function plane({ label, onPoint = () => {} }) {
  const stage = new Stage({ height: 400, label });
  const node = h("div", { class: "plane", tabindex: 0 }, stage.node);
  let facts = null, frame = null, over = null, share = 1, before = [];

  stage.onresize = () => { if (facts) { fit(); draw(); } };

  function fit() {
    const width = node.clientWidth;
    stage.height = Math.max(220, Math.min(width - 16, 720));
    stage.node.style.setProperty("height", `${stage.height}px`);
    const { left, bottom, side } = facts.window;
    // Both axes have one scale: where there is more room across, more of the plane is seen.
    const room = Math.max(1, (width - 68) / (stage.height - 52)), extra = (side * (room - 1)) / 2;
    stage.frame({ name: facts.axes[0], scale: scale(left - extra, left + side + extra) }, { name: facts.axes[1], scale: scale(bottom, bottom + side) });
  }

  function scene(given) {
    facts = given;
    frame = null;
    before = [];
    fit();
    draw();
  }

  const place = () => {
    const sharp = stage.canvas.width / stage.box.width;
    return { sharp, x: (value) => (stage.toX(value) - stage.box.left) * sharp, y: (value) => (stage.toY(value) - stage.box.top) * sharp };
  };

  function draw() {
    if (!facts || !stage.box) return;
    const context = stage.canvas.getContext("2d"), at = place();
    context.clearRect(0, 0, stage.canvas.width, stage.canvas.height);
    const looks = frame?.looks ?? {};
    const backdrop = over ? { ...over, kind: "values" } : looks.classes ?? looks.discriminator ?? looks.density ?? looks.energy ?? looks.mean;
    if (backdrop && share > 0.5) drawMap(context, at, backdrop);
    if (looks.grid && !over) drawGrid(context, at, looks.grid);
    for (const name of ["score", "reconstruction"]) if (looks[name]?.at && !over) drawField(context, at, looks[name]);
    drawData(context, at, looks);
    if (looks.samples && !over) drawSamples(context, at, looks.samples);
    if (looks.fakes && !over) drawFakes(context, at, looks.fakes);
    if (frame?.moving && !over) drawMoving(context, at, frame.moving);
  }

  function drawMap(context, at, look) {
    const { left, bottom, side } = facts.window;
    context.imageSmoothingEnabled = true;
    context.imageSmoothingQuality = "high";
    context.globalAlpha = 1;
    context.drawImage(mapOf(look), at.x(left), at.y(bottom + side), at.x(left + side) - at.x(left), at.y(bottom) - at.y(bottom + side));
  }

  function drawGrid(context, at, grid) {
    const each = grid.data.length / grid.lines;
    context.lineWidth = 1 * at.sharp;
    context.strokeStyle = colorOf("muted");
    context.globalAlpha = 0.75;
    for (let line = 0; line < grid.lines; line += 1) {
      context.beginPath();
      let pen = false;
      for (let n = line * each; n < (line + 1) * each; n += 1) {
        const [x, y] = between(grid.noise[n], grid.data[n]);
        if (x === null) { pen = false; continue; }
        if (pen) context.lineTo(at.x(x), at.y(y)); else context.moveTo(at.x(x), at.y(y));
        pen = true;
      }
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  // A place on the straight way from noise to data, as far as the slider says.
  function between(noise, data) {
    if (data[0] === null || data[1] === null || noise[0] === null) return [null, null];
    return [noise[0] + share * (data[0] - noise[0]), noise[1] + share * (data[1] - noise[1])];
  }

  function drawField(context, at, field) {
    const cell = at.x(field.at[1][0]) - at.x(field.at[0][0]);
    const longest = Math.max(1e-9, ...field.arrows.map(([x, y]) => Math.hypot(x ?? 0, y ?? 0)));
    const middle = field.arrows.map(([x, y]) => Math.hypot(x ?? 0, y ?? 0)).sort((a, b) => a - b)[Math.floor(field.arrows.length / 2)] || longest;
    context.strokeStyle = context.fillStyle = colorOf("ink");
    context.globalAlpha = 0.55;
    field.at.forEach(([x, y], n) => {
      const [across, up] = field.arrows[n];
      if (across === null || up === null) return;
      if (field.true) { arrow(context, at.x(x), at.y(y), at.x(x + across), at.y(y + up), at.sharp); return; }
      const size = Math.hypot(across, up) || 1, length = cell * 0.85 * Math.min(1, 0.35 + (0.65 * size) / (2 * middle));
      arrow(context, at.x(x), at.y(y), at.x(x) + (length * across) / size, at.y(y) - (length * up) / size, at.sharp);
    });
    context.globalAlpha = 1;
  }

  function drawData(context, at, looks) {
    const { points, labels, unlabeled } = facts, guess = looks.pseudo_labels;
    const sheet = colorOf("sheet"), few = unlabeled.length > 0;
    unlabeled.forEach(([x, y], n) => {
      const color = guess ? blend(rgb(colorOf("muted")), rgb(hue(guess.labels[n])), Math.max(0, 2 * guess.probability[n] - 1)) : rgb(colorOf("muted"));
      dot(context, at.x(x), at.y(y), 2.4 * at.sharp, `rgb(${color})`, sheet, 0.5 * at.sharp);
    });
    const small = points.length > 400 ? 2.2 : 3.2, latents = looks.grid?.latents;
    // Where the model knows no classes their colors would say nothing, and hide what moves.
    const colored = labels.length && (facts.looks === undefined || facts.conditional || facts.looks.includes("classes"));
    points.forEach((point, n) => {
      const [x, y] = latents && share < 1 && latents[n] ? between(latents[n], point) : point;
      if (x === null) return;
      const color = colored ? hue(labels[n]) : colorOf("ink");
      context.globalAlpha = colored ? 1 : 0.4;
      dot(context, at.x(x), at.y(y), (few ? 7 : small) * at.sharp, color, few ? colorOf("ink") : sheet, (few ? 2 : 0.7) * at.sharp);
    });
    context.globalAlpha = 1;
  }

  const colorAt = (look, n) => (look.classes?.length ? hue(look.classes[n]) : colorOf("second"));

  function drawSamples(context, at, look) {
    look.points.forEach(([x, y], n) => { if (x !== null) dot(context, at.x(x), at.y(y), 2.8 * at.sharp, colorAt(look, n), colorOf("sheet"), 0.6 * at.sharp); });
  }

  function drawFakes(context, at, look) {
    const size = look.arrows.map(([x, y]) => Math.hypot(x ?? 0, y ?? 0)).sort((a, b) => a - b)[Math.floor(look.arrows.length * 0.9)] || 1;
    const unit = (0.055 * facts.window.side) / size;
    context.strokeStyle = context.fillStyle = colorOf("ink");
    look.points.forEach(([x, y], n) => {
      const [across, up] = look.arrows[n], long = Math.min(1, size / (Math.hypot(across, up) || 1)) * unit;
      if (x !== null && across !== null) arrow(context, at.x(x), at.y(y), at.x(x + long * across), at.y(y + long * up), at.sharp);
    });
    drawSamples(context, at, look);
  }

  function drawMoving(context, at, look) {
    context.lineWidth = 1.2 * at.sharp;
    look.points.forEach(([x, y], n) => {
      if (x === null) return;
      const last = before[n];
      if (last && Math.hypot(last[0] - x, last[1] - y) < facts.window.side / 12) {
        context.strokeStyle = colorAt(look, n);
        context.globalAlpha = 0.5;
        context.beginPath();
        context.moveTo(at.x(last[0]), at.y(last[1]));
        context.lineTo(at.x(x), at.y(y));
        context.stroke();
        context.globalAlpha = 1;
      }
      dot(context, at.x(x), at.y(y), 3 * at.sharp, colorAt(look, n), colorOf("sheet"), 0.6 * at.sharp);
    });
  }

  // Pointing at the plane, in its own units.
  function where(event) {
    const bounds = stage.canvas.getBoundingClientRect();
    return [stage.x.scale.value((event.clientX - bounds.left) / bounds.width), stage.y.scale.value(1 - (event.clientY - bounds.top) / bounds.height)];
  }
  for (const kind of ["pointerdown", "pointermove", "pointerup", "pointercancel"]) {
    stage.node.addEventListener(kind, (event) => { if (stage.x) onPoint(kind, where(event), event); });
  }

  return {
    node, scene,
    show: (given) => { before = frame?.moving && frame.moving.name === given.moving?.name ? frame.moving.points : []; frame = given; draw(); },
    unit: (layer, index) => { over = layer ? { cells: layer.cells, values: layer.maps[index], low: -1, high: 1 } : null; draw(); },
    morph: (given) => { share = given; draw(); },
    points: (given) => { facts = { ...facts, ...given }; draw(); },
    pixels: () => bytes(stage.canvas),
    end: () => stage.end(),
  };
}
