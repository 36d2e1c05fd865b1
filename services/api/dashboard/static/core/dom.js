// DOM helpers. Text is always inserted as text, so no job output can become markup.

import { duration, time } from "./format.js";

const DAY = 86_400;
const HANDLERS = Symbol("handlers");
const KEY = Symbol("key");
const VERSION = Symbol("version");

/** Create an element with attributes, handlers (`onclick`, ...) and children; null children are skipped. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  element[HANDLERS] = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      element[HANDLERS][name] = value;
      element[name] = value;
    } else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** Give an element an identity among its siblings, by which `show` finds it again. */
export function keyed(key, element) {
  element[KEY] = key;
  return element;
}

/** An element that `show` leaves alone while its version is the same, as it may have been expanded. */
export function versioned(version, element) {
  element[VERSION] = version;
  return element;
}

/**
 * Make the children of an element equal to `children`, changing only what differs: elements of the
 * same key, or else of the same place and tag, stay, and with them focus, selection, scroll position
 * and a press in progress.
 */
export function show(element, ...children) {
  const next = [...h("div", {}, ...children).childNodes];
  const wanted = new Set(next.map((node) => node[KEY]).filter((key) => key !== undefined));
  const known = new Map();
  for (const node of [...element.childNodes]) {
    if (node[KEY] === undefined) continue;
    if (wanted.has(node[KEY])) known.set(node[KEY], node);
    else node.remove();
  }
  let place = element.firstChild;
  for (const node of next) {
    const found = node[KEY] === undefined ? unkeyed(place) : known.get(node[KEY]);
    if (!found || !isAlike(found, node)) {
      element.insertBefore(node, place);
      continue;
    }
    if (found === place) place = place.nextSibling;
    else if (element.moveBefore) element.moveBefore(found, place);
    else element.insertBefore(found, place);
    update(found, node);
  }
  while (place) {
    const { nextSibling } = place;
    place.remove();
    place = nextSibling;
  }
}

function unkeyed(node) {
  return node?.[KEY] === undefined ? node : null;
}

function isAlike(one, other) {
  return one.nodeName === other.nodeName && one[VERSION] === other[VERSION];
}

/** Give a node the attributes, handlers and children of another; what a person unfolded stays so. */
function update(node, next) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.data !== next.data) node.data = next.data;
    return;
  }
  if (node[VERSION] !== undefined) return;
  for (const { name } of [...node.attributes]) {
    if (name !== "open" && name !== "style" && !next.hasAttribute(name)) node.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (name !== "open" && name !== "style" && node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  // The Content-Security-Policy forbids the attribute.
  if (node.style.cssText !== next.style.cssText) node.style.cssText = next.style.cssText;
  for (const name of Object.keys(node[HANDLERS] ?? {})) node[name] = null;
  Object.assign(node, next[HANDLERS]);
  node[HANDLERS] = next[HANDLERS];
  show(node, ...next.childNodes);
}

/** Change a scrolling list, staying at its end if it was scrolled there. */
export function followEnd(element, change) {
  const follows = element.scrollHeight - element.scrollTop - element.clientHeight < 40;
  change();
  if (follows) element.scrollTop = element.scrollHeight;
}

/**
 * A table: `columns` maps headings to functions of a row; `empty` is shown when there are no rows.
 * Rows are known again by their ids.
 */
export function table(caption, columns, rows, empty) {
  if (!rows.length) return h("p", { class: "quiet" }, empty);
  const head = Object.keys(columns).map((name) => h("th", { scope: "col" }, name));
  const seen = new Map();
  const body = rows.map((row) => {
    const element = h("tr", {}, Object.values(columns).map((cell) => h("td", {}, cell(row) ?? "")));
    if (row.id === undefined) return element;
    seen.set(row.id, (seen.get(row.id) ?? 0) + 1);
    return keyed(`${row.id} ${seen.get(row.id)}`, element);
  });
  alignNumbers(head, body);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
}

const NUMBER = /^[+\u2212-]?[\d,]*\.?\d+(e[+-]?\d+)? ?%?$/;

/** Put columns of nothing but numbers at the right of their cells, where digits are comparable. */
function alignNumbers(head, rows) {
  head.forEach((name, column) => {
    const cells = rows.map((row) => row.children[column]);
    const texts = cells.map((cell) => cell.textContent).filter(Boolean);
    if (texts.length && texts.every((text) => NUMBER.test(text))) for (const cell of [name, ...cells]) cell.classList.add("numeric");
  });
}

const SHOWN_CHARACTERS = 20_000;
// Browsers lay out only the visible pieces; a single block of 5 MB would freeze them for minutes.
const PIECES = /[^]{1,5000}\n|[^]{1,5000}/gu;

/** Preformatted text; the rest of a long one is shown on demand. */
export function whole(content) {
  const body = h("pre", { tabindex: "0" }, content.slice(0, SHOWN_CHARACTERS));
  if (content.length <= SHOWN_CHARACTERS) return body;
  const rest = h("button", {
    type: "button",
    onclick: () => {
      body.replaceChildren(...content.match(PIECES).map((piece) => h("span", {}, piece)));
      rest.remove();
    },
  }, `Show all ${content.length.toLocaleString("en-US")} characters`);
  return [body, rest];
}

const EXCERPT_CHARACTERS = 400;

/** A text shortened for a table cell. */
export function excerpt(content) {
  const cut = (content ?? "").length > EXCERPT_CHARACTERS;
  return h("span", { class: "long" }, cut ? `${content.slice(0, EXCERPT_CHARACTERS)}…` : content);
}

/** Items joined by a separator; null if empty. `build` makes the children of each. */
export function inline(items, separator, build) {
  return items.length ? items.map((item, index) => [index ? separator : null, build(item)]) : null;
}

/** A description list; terms without a value are omitted. */
export function facts(entries) {
  const given = Object.entries(entries).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", {}, given.map(([term, value]) => [keyed(`${term}:`, h("dt", {}, term)), keyed(term, h("dd", {}, value))]));
}

/** A Unix time as a date, or how long ago it was if that is less than a day; hovered, in full. */
export function when(seconds) {
  if (seconds === null || seconds === undefined) return null;
  const age = Date.now() / 1000 - seconds;
  const text = age < DAY ? `${duration(age).split(" ")[0]} ago` : new Date(seconds * 1000).toLocaleDateString();
  return h("time", { datetime: new Date(seconds * 1000).toISOString(), title: time(seconds) }, text);
}

/** A labeled input or select. */
export function field(label, control) {
  return h("label", { class: "field" }, h("span", {}, label), control);
}

/** Mark a control as invalid or valid. */
export function setInvalid(control, isInvalid) {
  if (isInvalid) control.setAttribute("aria-invalid", "true");
  else control.removeAttribute("aria-invalid");
}

/** A select; `options` maps values to their texts. */
export function select(options, chosen, onchange) {
  const items = Object.entries(options).map(([value, text]) => h("option", { value, selected: value === chosen }, text));
  return h("select", { onchange: (event) => onchange(event.target.value) }, items);
}

/** The equivalent curl and CLI commands; `body` is the JSON text to post. */
export function sameBy(path, command, body) {
  // JSON escapes line breaks, so no text in the body can end the here-document.
  const posted = body === undefined ? "" : ` --json @- <<'END'\n${body}\nEND`;
  return h("details", { class: "same" }, h("summary", {}, "Equivalent curl and CLI commands"),
    h("pre", { tabindex: "0" }, `curl ${location.origin}${path}${posted}${command ? `\n${command}` : ""}`));
}
