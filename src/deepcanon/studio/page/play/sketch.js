// Points drawn by hand: pens for classes, an eraser, and a spray that follows the pointer.

import { fill, h } from "../dom.js";

const PENS = 4, SPREAD = 0.05, NEAR = 0.12, MOST = 600, EVERY = 0.035;

// sketch(onChange(points)) -> {node, point(kind, [x, y], event), points(), set(points)}
export function sketch(onChange) {
  let pen = 0, points = [], down = false, last = null;
  const node = h("div", { class: "pens", role: "radiogroup", "aria-label": "Pen" });

  function draw() {
    fill(node,
      Array.from({ length: PENS }, (_, n) => h("button", { type: "button", role: "radio", "aria-checked": pen === n ? "true" : "false", class: `pen${pen === n ? " on" : ""}`, "aria-label": `Pen of class ${n + 1}`, style: { "--pen": `var(--hue${n})` }, onclick: () => { pen = n; draw(); } })),
      h("button", { type: "button", role: "radio", "aria-checked": pen < 0 ? "true" : "false", class: pen < 0 ? "chip on" : "chip", onclick: () => { pen = -1; draw(); } }, "erase"),
      h("button", { type: "button", onclick: () => { points = []; onChange(points, true); } }, "clear"));
  }

  function point(kind, [x, y], event) {
    if (kind === "pointerdown") { down = true; last = null; event.target.setPointerCapture?.(event.pointerId); event.preventDefault(); }
    if (!down) return;
    if (kind === "pointerup" || kind === "pointercancel") { down = false; onChange(points, true); return; }
    if (last && Math.hypot(x - last[0], y - last[1]) < EVERY) return;
    last = [x, y];
    if (pen < 0) points = points.filter((each) => Math.hypot(each[0] - x, each[1] - y) > NEAR);
    else for (let n = 0; n < 3 && points.length < MOST; n += 1) points.push([around(x), around(y), pen]);
    onChange(points, false);
  }

  const around = (value) => Math.max(-1, Math.min(1, Math.round((value + SPREAD * (Math.random() + Math.random() + Math.random() - 1.5)) * 500) / 500));

  draw();
  return { node, point, set: (given) => { points = given; } };
}
