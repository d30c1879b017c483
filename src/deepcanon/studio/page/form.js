// Forms made from a list of fields: {name, kind, default, choices, meaning, required}. Kinds: integer, number, text, flag, choice, long.

import { h } from "./dom.js";

let forms = 0;

// form(fields, {submit: "Train", onSubmit(values)}) -> {node, values(), refuse(sentence), busy(on)}. A field that is left empty is not in values().
export function form(fields, { submit = "", onSubmit = async () => {}, values: given = {} } = {}) {
  const own = ++forms;
  const inputs = new Map();
  const complaint = h("p", { class: "refusal", role: "alert", hidden: true });
  const button = submit ? h("button", { class: "main", type: "submit" }, submit) : null;
  const rows = fields.map((field) => {
    const id = `field-${own}-${field.name}`;
    const input = inputOf(field, id, given[field.name]);
    inputs.set(field.name, [field, input]);
    const title = field.title ?? field.name.replaceAll("_", " ");
    const words = field.meaning ? h("small", { id: `${id}-meaning` }, field.meaning) : null;
    if (words) input.setAttribute("aria-describedby", words.id);
    return field.kind === "flag"
      ? h("div", { class: "field flag" }, h("label", { for: id }, input, " ", title), words)
      : h("div", { class: "field" }, h("label", { for: id }, title, field.required ? h("b", { title: "needed" }, " *") : ""), input, words);
  });
  const node = h("form", { class: "fields", novalidate: true, onsubmit: async (event) => {
    event.preventDefault();
    refuse("");
    busy(true);
    try { await onSubmit(values()); } catch (error) { refuse(error.message); } finally { busy(false); }
  } }, rows, complaint, button ? h("div", { class: "actions" }, button) : null);

  function values() {
    const found = {};
    for (const [name, [field, input]] of inputs) {
      if (field.kind === "flag") { if (input.checked !== Boolean(field.default)) found[name] = input.checked; }
      else if (input.value.trim() !== "") found[name] = input.value.trim();
    }
    return found;
  }

  function refuse(sentence) { complaint.textContent = sentence; complaint.hidden = !sentence; }
  function busy(on) { if (button) button.disabled = on; }
  return { node, values, refuse, busy, input: (name) => inputs.get(name)?.[1] };
}

function inputOf(field, id, value) {
  const shown = field.default === null || field.default === undefined ? "" : String(field.default);
  if (field.kind === "flag") return h("input", { id, type: "checkbox", checked: value ?? Boolean(field.default) });
  if (field.kind === "long") return h("textarea", { id, rows: 3, maxlength: 10000, value: value ?? "" });
  if (field.kind === "choice") {
    const empty = field.required ? [] : [h("option", { value: "" }, shown ? `${shown} (default)` : "default")];
    return h("select", { id }, empty, field.choices.filter((each) => field.required || each !== shown).map((each) => h("option", { value: each, selected: each === value }, each)));
  }
  const listed = field.choices?.length ? h("datalist", { id: `${id}-choices` }, field.choices.map((each) => h("option", { value: each }))) : null;
  const input = h("input", { id, type: "text", inputmode: { integer: "numeric", number: "decimal" }[field.kind], placeholder: shown, autocomplete: "off", spellcheck: "false", list: listed?.id, value: value ?? "" });
  if (listed) queueMicrotask(() => input.after(listed));
  return input;
}
