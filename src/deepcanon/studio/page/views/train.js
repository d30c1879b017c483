// Train: a form with the same options as the command line; the server checks them and answers in the same sentences.

import { get, post } from "../api.js";
import { fill, h } from "../dom.js";
import { form } from "../form.js";

export const title = "Train";
export const under = "runs";

const USUAL = ["epochs", "batch_size", "lr", "optimizer", "seed", "patience"];

export async function mount(root, state, go) {
  const offered = await get("/api/catalogue");
  const names = offered.models.map((model) => model.name);
  const own = h("div", { class: "card" });
  const model = h("input", { id: "model", list: "models", value: state.model ?? "", placeholder: "mlp", autocomplete: "off", spellcheck: "false", onchange: () => { go({ model: model.value }, { quiet: true }); choose(); } });
  const data = h("input", { id: "data", list: "data-sets", value: state.data ?? "", placeholder: "the model's own default", autocomplete: "off", spellcheck: "false", onchange: () => go({ data: data.value }, { quiet: true }) });
  const folder = h("input", { id: "folder", placeholder: "the model's name", autocomplete: "off", spellcheck: "false" });
  const doctor = h("input", { id: "doctor", type: "checkbox" }), film = h("input", { id: "film", type: "checkbox" });
  const field = (id, words, input, meaning) => h("div", { class: "field" }, h("label", { for: id }, words), input, h("small", {}, meaning));
  root.append(h("div", { class: "top" }, h("h1", {}, "Train a model"), h("a", { href: "#/runs" }, "Back to the runs")),
    h("div", { class: "card" }, h("div", { class: "fields" },
      field("model", "model", [model, h("datalist", { id: "models" }, offered.models.map((each) => h("option", { value: each.name }, each.title)))], `One of ${names.length} models of 'deepcanon list'.`),
      field("data", "data", [data, h("datalist", { id: "data-sets" }, offered.data.map((each) => h("option", { value: each })))], offered.files.length ? "A data set by name, with its form where wanted (digits:binary), or one of your files." : "A data set by name, with its form where wanted (digits:binary). For files of yours start the studio with --data FILE."),
      field("folder", "name of the run", folder, "Its folder, in the folder of these runs."),
      h("div", { class: "field flag" }, h("label", { for: "doctor" }, doctor, " with the doctor"), h("small", {}, "Warn as soon as something in the training is ill.")),
      h("div", { class: "field flag" }, h("label", { for: "film" }, film, " with a film"), h("small", {}, "Draw samples, decisions or texts at a dozen steps, by the same random numbers.")))), own);

  async function choose() {
    if (!model.value) { fill(own, h("p", { class: "note" }, "Choose a model to see what it takes.")); return; }
    fill(own, h("p", { class: "note" }, `Reading ${model.value} …`));
    let found;
    try { found = await get(`/api/catalogue/${encodeURIComponent(model.value)}`); } catch (error) { fill(own, h("p", { class: "refusal", role: "alert" }, error.message)); return; }
    const withRecipe = offered.settings.map((each) => ({ ...each, default: found.recipe[each.name] ?? each.default }));
    const parts = {
      arguments: form(found.arguments),
      usual: form(withRecipe.filter((each) => USUAL.includes(each.name))),
      settings: form(withRecipe.filter((each) => !USUAL.includes(each.name))),
      reading: form(offered.reading),
    };
    const complaint = h("p", { class: "refusal", role: "alert", hidden: true });
    const button = h("button", { type: "button", class: "main", onclick: async () => {
      complaint.hidden = true;
      button.disabled = true;
      try {
        await post("/api/jobs", { what: "train", model: model.value, data: data.value, folder: folder.value, doctor: doctor.checked, film: film.checked, arguments: parts.arguments.values(), settings: { ...parts.usual.values(), ...parts.settings.values() }, reading: parts.reading.values() });
        go({}, { view: "runs" });
      } catch (error) {
        complaint.textContent = error.message;
        complaint.hidden = false;
        button.disabled = false;
      }
    } }, `Train ${found.name}`);
    fill(own, h("h2", {}, found.title), h("p", {}, found.summary), h("p", { class: "note" }, `Learns from ${found.learns_from}. What is left empty is as the gray text says.`),
      found.arguments.length ? [h("h3", {}, "The model"), parts.arguments.node] : null, h("h3", {}, "The training"), parts.usual.node,
      h("details", {}, h("summary", {}, "All settings of the training"), parts.settings.node), h("details", {}, h("summary", {}, "How a file is read"), parts.reading.node), complaint, h("div", { class: "actions" }, button));
  }
  await choose();
  (model.value ? data : model).focus();
}
