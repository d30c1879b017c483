// Saving what is seen: a picture as PNG, a view as one HTML file that needs nothing else. All of it is made in the page.

import { colorOf } from "./axes.js";
import { h } from "./dom.js";

export function download(name, blob) {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

const fileName = (name, ending) => `${name.replace(/[^\w.-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 80) || "view"}.${ending}`;

// The stages, images and canvases of a figure, one below the other, with its caption.
export async function savePng(figure, name) {
  const parts = [...figure.querySelectorAll(".stage, img, canvas")].filter((part) => !part.parentElement.closest(".stage") && part.getClientRects().length);
  const outer = figure.getBoundingClientRect(), words = figure.querySelector("figcaption")?.textContent ?? "";
  const sharp = 2, top = Math.min(...parts.map((part) => part.getBoundingClientRect().top)), bottom = Math.max(...parts.map((part) => part.getBoundingClientRect().bottom));
  const sheet = h("canvas");
  sheet.width = outer.width * sharp;
  sheet.height = (bottom - top + (words ? 34 : 8)) * sharp;
  const context = sheet.getContext("2d");
  context.scale(sharp, sharp);
  context.fillStyle = colorOf("sheet");
  context.fillRect(0, 0, outer.width, sheet.height);
  for (const part of parts) {
    const box = part.getBoundingClientRect(), x = box.left - outer.left, y = box.top - top;
    if (!part.classList.contains("stage")) { context.drawImage(part, x, y, box.width, box.height); continue; }
    const canvas = part.querySelector("canvas"), svg = part.querySelector("svg"), place = canvas.getBoundingClientRect();
    context.drawImage(await imageOf(svg, box), x, y, box.width, box.height);
    context.drawImage(canvas, place.left - outer.left, place.top - top, place.width, place.height);
  }
  context.fillStyle = colorOf("muted");
  context.font = "12px system-ui, sans-serif";
  context.fillText(words, 8, bottom - top + 20, outer.width - 16);
  const blob = await new Promise((done) => sheet.toBlob(done, "image/png"));
  download(fileName(name, "png"), blob);
}

async function imageOf(svg, box) {
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  return image;
}

// The view as it is now, with its pictures inside, without what only works in the studio.
export async function saveHtml(view, name) {
  const copy = view.cloneNode(true);
  const drawn = [...view.querySelectorAll("canvas")], copied = [...copy.querySelectorAll("canvas")];
  drawn.forEach((canvas, n) => {
    const image = h("img", { src: canvas.width ? canvas.toDataURL("image/png") : "data:,", alt: "" });
    image.style.cssText = canvas.style.cssText;
    image.className = `${canvas.className} drawn`;
    copied[n].replaceWith(image);
  });
  for (const tool of copy.querySelectorAll("button, input, select, textarea, form, iframe, script, .tools, .live-only")) tool.remove();
  for (const link of copy.querySelectorAll("a")) link.replaceWith(...link.childNodes);
  const sheets = [...document.querySelectorAll("link[rel=stylesheet]")].map(async (link) => (await fetch(link.href)).text());
  const style = (await Promise.all(sheets)).join("\n");
  const page = document.implementation.createHTMLDocument(`${name} · deepcanon studio`);
  page.documentElement.lang = "en";
  page.head.append(page.createElement("meta"), page.createElement("meta"));
  page.head.querySelectorAll("meta")[0].setAttribute("charset", "utf-8");
  const width = page.head.querySelectorAll("meta")[1];
  width.name = "viewport";
  width.content = "width=device-width, initial-scale=1";
  const main = page.createElement("main"), foot = page.createElement("p");
  main.id = "main";
  foot.className = "note";
  foot.textContent = `Saved from the deepcanon studio on ${new Date().toLocaleString("en")}.`;
  main.append(page.adoptNode(copy), foot);
  page.body.append(main);
  // The style is put in as text: as an element it would be inline style here, which the policy of this page refuses.
  const text = page.documentElement.outerHTML.replace("</head>", () => `<style>${style}</style></head>`);
  download(fileName(name, "html"), new Blob([`<!doctype html>\n${text}`], { type: "text/html" }));
}

// The button that every view has.
export function saveButton(view, name) {
  return h("button", { type: "button", class: "live-only", title: "One HTML file with what is shown now", onclick: () => saveHtml(view, typeof name === "function" ? name() : name) }, "Save");
}
