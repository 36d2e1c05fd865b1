// Views that a person keeps: addresses with a name, in this browser. An address reproduces its view.

import { h } from "./dom.js";

const KEY = "temper-views";
const MOST = 50;

function read() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter(({ name, address }) => typeof name === "string" && /^\/ui(\/|\?|$)/.test(address)) : [];
  } catch {
    return []; // a browser that keeps nothing, or what another page wrote
  }
}

/** Fill the menu of saved views. */
export function savedViews(menu) {
  const list = h("ul", { class: "saved" });
  const problem = h("p", { class: "error", role: "alert" });
  const name = h("input", { type: "text", maxlength: "100", required: true, "aria-label": "Name of this view" });
  let suggested = "";

  function write(views) {
    problem.textContent = "";
    try {
      localStorage.setItem(KEY, JSON.stringify(views));
    } catch {
      problem.textContent = "This browser keeps nothing; bookmark the address instead.";
    }
    draw();
  }

  function draw() {
    const views = read();
    list.replaceChildren(...views.map((view) => h("li", { class: "row" }, h("a", { href: view.address }, h("bdi", {}, view.name)),
      h("button", { type: "button", "aria-label": `Remove ${view.name}`, onclick: () => write(read().filter((one) => one.address !== view.address || one.name !== view.name)) }, "remove"))));
  }

  const save = (event) => {
    event.preventDefault();
    const address = location.pathname + location.search;
    const others = read().filter((one) => one.address !== address);
    if (others.length >= MOST) {
      problem.textContent = `No more than ${MOST} views are kept: remove one first.`;
      return;
    }
    write([...others, { name: name.value.trim() || address, address }]);
    name.value = suggested = "";
  };
  menu.append(h("div", { class: "popup" }, h("form", { class: "row", onsubmit: save }, name, h("button", {}, "Save this view")), problem, list));
  menu.addEventListener("toggle", () => {
    if (!menu.open) return;
    // The event comes a moment after the menu has opened: what was typed meanwhile stays.
    if (name.value === suggested) name.value = suggested = document.title.replace(/ · Temper$/, "");
    draw();
  });
  list.addEventListener("click", (event) => { if (event.target.closest("a")) menu.open = false; });
}
