// Controls for a value that a schema describes. What is left empty is left out of the value.
//
// Every part is `{ element, read }`: `read(problems)` returns the value, undefined where it is left
// out, and adds a line to `problems` for every text that is none.

import { field, h, setInvalid } from "./dom.js";
import { json } from "./format.js";
import { holds, isObject, kindOf, nameOf, resolve, variants } from "./schema.js";

const LONG_TEXT = 10_000;
let hints = 0;

/**
 * The controls of an object. `context` has the OpenAPI `description`, `changed` for changes that
 * are no input, and `lists`, which maps names of fields to the ids of lists of suggestions.
 */
export function objectForm(context, schema, value) {
  return fields(context, "", resolve(context.description, schema), value ?? {}, true);
}

/**
 * Say at the field of a form that an error answer names what is wrong with it, and go there: at the
 * closest one around it where the form does not have it. Returns what takes the words away again.
 */
export function pointOut(form, param, message) {
  const place = closestPlace(form, param);
  const control = place?.querySelector("input, select, textarea, summary, button");
  if (!control) return () => {};
  for (let fold = place.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  hints += 1;
  const said = h("small", { id: `hint-${hints}`, class: "error" }, message);
  const before = control.getAttribute("aria-describedby");
  const canBeInvalid = control.matches("input, select, textarea");
  control.setAttribute("aria-describedby", [before, said.id].filter(Boolean).join(" "));
  if (canBeInvalid) setInvalid(control, true);
  place.append(said);
  control.focus();
  return () => {
    said.remove();
    if (before) control.setAttribute("aria-describedby", before);
    else control.removeAttribute("aria-describedby");
    if (canBeInvalid) setInvalid(control, false);
  };
}

/** Items of a list are left out: the gateway counts them, and the form may have lost some. */
function closestPlace(form, param) {
  const places = [...form.querySelectorAll("[data-place]")].filter((each) => !each.closest("li"));
  const names = param.split(".");
  for (let length = names.length; length > 0; length -= 1) {
    const wanted = names.slice(0, length).join(".");
    const found = places.findLast((each) => each.dataset.place === wanted); // of a union the chosen one
    if (found) return found;
  }
  return null;
}

function fields(context, place, schema, value, required) {
  const needed = new Set(schema.required ?? []);
  const names = Object.keys(schema.properties);
  const sorted = [...names.filter((name) => needed.has(name)), ...names.filter((name) => !needed.has(name))];
  const parts = sorted.map((name) => {
    const whole = place ? `${place}.${name}` : name;
    return [name, part(context, whole, name, schema.properties[name], value[name], needed.has(name))];
  });

  const others = schema.additionalProperties === true ? otherFields(place, names, value) : null;

  function read(problems) {
    const given = parts.map(([name, each]) => [name, each.read(problems), each.isFixed]).filter(([, item]) => item !== undefined);
    const further = others?.read(problems);
    if (!required && further === undefined && given.every(([, , isFixed]) => isFixed)) return undefined;
    return { ...Object.fromEntries(given.map(([name, item]) => [name, item])), ...further };
  }

  return { element: h("div", { class: "fields" }, parts.map(([, each]) => each.element), others?.element), read };
}

/** The fields of an open object that its schema does not name. */
function otherFields(place, names, value) {
  const rest = Object.entries(value).filter(([name]) => !names.includes(name));
  const label = `others of ${place}`;
  const control = anything({ place: label, label, hint: null, value: rest.length ? Object.fromEntries(rest) : undefined });

  function read(problems) {
    const found = control.read(problems);
    if (found === undefined || isObject(found)) return found;
    problems.push(`${label}: not an object`);
    return undefined;
  }

  return { element: control.element, read };
}

/** A field of an object or an item of a list. */
function part(context, place, name, schema, value, required) {
  const whole = resolve(context.description, schema);
  const options = variants(context.description, schema);
  const label = required ? `${name} (required)` : name;
  const wanted = { place, name, label, hint: hintOf(whole, options), value, required };
  if (options.length > 1) return union(context, options, wanted);
  const [only = {}] = options;
  const isHeld = value === undefined || holds(context.description, only, value);
  return single(context, isHeld ? only : {}, wanted);
}

function single(context, schema, wanted) {
  const made = controlOf(context, schema, wanted);
  if (made.element) made.element.dataset.place = wanted.place;
  return made;
}

function controlOf(context, schema, wanted) {
  switch (kindOf(schema)) {
    case "fixed": return { element: null, isFixed: true, read: () => schema.const };
    case "object": return group(context, schema, wanted);
    case "list": return list(context, schema, wanted);
    case "choice": return choice(schema.enum, wanted);
    case "boolean": return choice([true, false], wanted);
    case "string": return text(context, schema, wanted);
    case "json": return anything(wanted);
    default: return numeric(wanted);
  }
}

/** A value of one of several schemas; the last choice is JSON, for what the others cannot hold. */
function union(context, options, wanted) {
  const { description } = context;
  const { value, label, hint, required } = wanted;
  const all = [...options, {}];
  const names = [...options.map((each) => nameOf(description, each)), "JSON"];
  const complete = options.findIndex((each) => holds(description, each, value, true));
  const fitting = complete < 0 ? all.findIndex((each) => holds(description, each, value)) : complete;
  const first = required ? 0 : -1;
  const area = h("div");
  let chosen = null;

  function choose(index, initial) {
    const inner = { ...wanted, hint: null, value: initial, required: true };
    chosen = index < 0 ? null : single(context, all[index], inner);
    area.replaceChildren(...(chosen?.element ? [chosen.element] : []));
  }

  const begin = value === undefined ? first : fitting;
  const empty = required ? [] : [h("option", { value: -1, selected: begin < 0 }, "as by default")];
  const kind = h("select", { onchange: () => choose(Number(kind.value)) }, empty,
    names.map((name, index) => h("option", { value: index, selected: index === begin }, name)));
  choose(begin, value);
  return {
    element: h("div", { class: "wide" }, explained(`${label}, as`, kind, hint), area),
    read: (problems) => chosen?.read(problems),
  };
}

/** An object, folded and not built before it is opened, unless it has to be there. */
function group(context, schema, { place, label, hint, value, required }) {
  let content = null;
  const body = h("div", { role: "group", "aria-label": place });
  const element = h("details", { class: "wide", ontoggle: build }, h("summary", {}, label), hint ? h("p", { class: "quiet" }, hint) : null, body);

  function build() {
    if (content) return;
    content = fields(context, place, schema, value ?? {}, required || value !== undefined);
    body.append(content.element);
  }

  if (required || value !== undefined) {
    build();
    element.open = true;
  }
  return { element, read: (problems) => content?.read(problems) };
}

function list(context, schema, { place, name, label, hint, value, required }) {
  const items = new Set();
  const entries = h("ol");
  const add = h("button", { type: "button", onclick: () => { append(undefined); context.changed(); } }, `Add to ${name}`);
  let count = 0;

  function append(initial) {
    count += 1;
    const title = `${name} ${count}`;
    const item = part(context, `${place}.${count}`, title, schema.items, initial, true);
    const entry = h("li", {}, item.element, h("button", { type: "button", onclick: remove }, `Remove ${title}`));
    items.add(item);
    entries.append(entry);

    function remove() {
      items.delete(item);
      entry.remove();
      add.focus();
      context.changed();
    }
  }

  for (const each of value ?? []) append(each);
  return {
    element: h("div", { class: "wide", role: "group", "aria-label": place }, h("span", {}, label), hint ? h("p", { class: "quiet" }, hint) : null, entries, add),
    read(problems) {
      const given = [...items].map((item) => item.read(problems)).filter((each) => each !== undefined);
      return given.length || required || value ? given : undefined;
    },
  };
}

function choice(values, { label, hint, value, required }) {
  const empty = required ? null : h("option", { value: "" }, "as by default");
  const control = h("select", {}, empty, values.map((each) => h("option", { value: JSON.stringify(each), selected: each === value }, String(each))));
  return { element: explained(label, control, hint), read: () => (control.value ? JSON.parse(control.value) : undefined) };
}

function text(context, schema, { name, label, hint, value }) {
  const isLong = (schema.maxLength ?? 0) >= LONG_TEXT || value?.includes("\n");
  const control = isLong ? h("textarea", { rows: 3 }) : h("input", { list: context.lists[name], autocomplete: "off" });
  control.value = value ?? "";
  // What was given as an empty text stays one.
  return { element: explained(label, control, hint), read: () => control.value || (value === "" ? "" : undefined) };
}

function numeric({ place, label, hint, value }) {
  const control = h("input", { inputmode: "decimal", autocomplete: "off", value });

  function read(problems) {
    const written = control.value.trim();
    const isNumber = Number.isFinite(Number(written));
    setInvalid(control, !isNumber);
    if (!isNumber) problems.push(`${place}: not a number`);
    return written && isNumber ? Number(written) : undefined;
  }

  return { element: explained(label, control, hint), read };
}

function anything({ place, label, hint, value }) {
  const control = h("textarea", { rows: 3, spellcheck: "false" });
  control.value = value === undefined ? "" : json(value, 2);

  function read(problems) {
    let found;
    let isJson = true;
    try {
      if (control.value.trim()) found = JSON.parse(control.value);
    } catch (error) {
      isJson = false;
      problems.push(`${place}: ${error.message}`);
    }
    setInvalid(control, !isJson);
    return found;
  }

  const said = hint ? `${hint} JSON.` : "JSON.";
  const element = explained(label, control, said);
  element.classList.add("wide");
  return { element, read };
}

/** A labeled control with what is to be known about it. */
function explained(label, control, hint) {
  if (!hint) return h("div", {}, field(label, control));
  hints += 1;
  control.setAttribute("aria-describedby", `hint-${hints}`);
  return h("div", {}, field(label, control), h("small", { id: `hint-${hints}`, class: "quiet" }, hint));
}

function hintOf(whole, options) {
  const only = options.length === 1 ? options[0] : {};
  const least = only.minimum ?? only.exclusiveMinimum;
  const most = only.maximum ?? only.exclusiveMaximum;
  const isSimple = whole.default !== undefined && whole.default !== null && typeof whole.default !== "object";
  const said = [
    whole.description ?? null,
    least === undefined ? null : `${only.minimum === undefined ? "Above" : "From"} ${least}.`,
    most === undefined ? null : `${only.maximum === undefined ? "Below" : "Up to"} ${most}.`,
    isSimple ? `Default: ${whole.default}.` : null,
  ];
  return said.filter((each) => each !== null).join(" ");
}
