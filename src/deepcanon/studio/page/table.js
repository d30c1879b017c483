// A table that sorts by a click on a column's name; rows are told apart by their key, text is never HTML.

import { fill, h } from "./dom.js";

// table({columns: [{name, title, numeric, cell(row), value(row), hint}], key(row), sort: "name" or "-name", onSort(sort), row(row) -> properties})
// -> {node, draw(rows)}. `cell` gives text or a node, `value` what is sorted by.
export function table({ columns, key, sort = "", onSort = () => {}, row = () => ({}), caption = "" }) {
  const head = h("tr"), body = h("tbody");
  const node = h("div", { class: "scroll" }, h("table", {}, caption ? h("caption", {}, caption) : null, h("thead", {}, head), body));
  let current = sort, rows = [], shown = columns;

  function sorted() {
    const down = current.startsWith("-"), column = shown.find((each) => each.name === current.replace(/^-/, ""));
    if (!column) return rows;
    const value = column.value ?? column.cell;
    const known = (each) => value(each) !== null && value(each) !== undefined && !Number.isNaN(value(each));
    const order = (a, b) => (typeof value(a) === "number" ? value(a) - value(b) : String(value(a)).localeCompare(String(value(b)), "en", { numeric: true }));
    const there = rows.filter(known).sort(order);
    return [...(down ? there.reverse() : there), ...rows.filter((each) => !known(each))];
  }

  function draw(given = rows, changed = shown) {
    rows = given;
    shown = changed;
    fill(head, shown.map((column) => {
      const on = current.replace(/^-/, "") === column.name;
      const direction = on ? (current.startsWith("-") ? "descending" : "ascending") : null;
      const turn = () => { current = on && !current.startsWith("-") ? `-${column.name}` : column.name; onSort(current); draw(); head.querySelector(`[data-column="${CSS.escape(column.name)}"]`)?.focus(); };
      const title = column.plain ? column.title : h("button", { type: "button", class: "plain", "data-column": column.name, onclick: turn, title: column.hint }, column.title, on ? (current.startsWith("-") ? " ↓" : " ↑") : "");
      return h("th", { scope: "col", class: column.numeric ? "numeric" : "", "aria-sort": direction }, title);
    }));
    const focused = body.contains(document.activeElement) ? document.activeElement.closest("tr")?.dataset.key : null;
    const which = focused && [...document.activeElement.closest("tr").querySelectorAll("a, button, input")].indexOf(document.activeElement);
    fill(body, sorted().map((each) => h("tr", { "data-key": key?.(each), ...row(each) }, shown.map((column) => h("td", { class: column.numeric ? "numeric" : "" }, column.cell(each))))));
    if (focused) body.querySelector(`tr[data-key="${CSS.escape(focused)}"]`)?.querySelectorAll("a, button, input")[which]?.focus();
  }

  draw([]);
  return { node, draw };
}
