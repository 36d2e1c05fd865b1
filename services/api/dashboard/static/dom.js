// DOM helpers. Text is always inserted as text, so no job output can become markup.

/** Create an element with attributes, handlers (`onclick`, ...) and children; null children are skipped. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** Replace the children of an element only if they differ, to preserve focus and selection. */
export function show(element, ...children) {
  const next = h("div", {}, ...children);
  if (next.innerHTML !== element.innerHTML) element.replaceChildren(...next.childNodes);
}

/** Change a scrolling list, staying at its end if it was scrolled there. */
export function followEnd(element, change) {
  const follows = element.scrollHeight - element.scrollTop - element.clientHeight < 40;
  change();
  if (follows) element.scrollTop = element.scrollHeight;
}

/** A table: `columns` maps headings to functions of a row; `empty` is shown when there are no rows. */
export function table(caption, columns, rows, empty) {
  if (!rows.length) return h("p", { class: "quiet" }, empty);
  const head = Object.keys(columns).map((name) => h("th", { scope: "col" }, name));
  const body = rows.map((row) => h("tr", {}, Object.values(columns).map((cell) => h("td", {}, cell(row) ?? ""))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
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
  return h("dl", {}, given.map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));
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
