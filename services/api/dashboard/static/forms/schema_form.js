// Form controls generated from a schema. Empty controls are omitted from the value.
//
// Every part is `{ element, read }`, like the controls.

import { field, h, setInvalid } from "../core/dom.js";
import { isObject } from "../core/exact_json.js";
import { holds, kindOf, nameOf, resolve, valuesOf, variants } from "./schema.js";
import { anything, choice, explained, numeric, text } from "./schema_controls.js";

/**
 * The controls of an object. `context` has the OpenAPI `description`, `changed`, called on changes
 * without an input event, and `lists`, the datalist ids by field name.
 */
export function objectForm(context, schema, value) {
  return fields(context, "", resolve(context.description, schema), value ?? {}, true);
}

function fields(context, place, schema, value, required) {
  const needed = new Set(schema.required ?? []);
  const names = Object.keys(schema.properties);
  const sorted = [...names.filter((name) => needed.has(name)), ...names.filter((name) => !needed.has(name))];
  const parts = sorted.map((name) => {
    const wanted = { place: place ? `${place}.${name}` : name, name, title: name, value: value[name], required: needed.has(name) };
    return [name, part(context, schema.properties[name], wanted)];
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

/** The fields of an open object beyond its schema. */
function otherFields(place, names, value) {
  const rest = Object.entries(value).filter(([name]) => !names.includes(name));
  const label = `other fields of ${place}`;
  const control = anything({ place: label, label, hint: null, value: rest.length ? Object.fromEntries(rest) : undefined });

  function read(problems) {
    const found = control.read(problems);
    if (found === undefined || isObject(found)) return found;
    problems.push(`${label}: not an object`);
    return undefined;
  }

  return { element: control.element, read };
}

/**
 * A field of an object or an item of a list: `wanted` has its `place` in the form, the `name` of the
 * field, its `title` on the page, its initial `value`, and whether it is `required`.
 */
function part(context, schema, wanted) {
  const whole = resolve(context.description, schema);
  const options = variants(context.description, schema);
  const label = wanted.required ? `${wanted.title} (required)` : wanted.title;
  const told = { ...wanted, label, hint: hintOf(whole, options) };
  if (options.length > 1) return union(context, options, told);
  const [only = {}] = options;
  const isHeld = wanted.value === undefined || holds(context.description, only, wanted.value);
  return single(context, isHeld ? only : {}, told);
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
    case "map": return map(context, schema, wanted);
    case "choice": return choice(schema.enum, wanted);
    case "boolean": return choice([true, false], wanted);
    case "string": return text(schema, context.lists[wanted.name], wanted);
    case "json": return anything(wanted);
    default: return numeric(wanted);
  }
}

/** A value of one of several schemas; the last choice is JSON, for values that fit no other. */
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
    const inner = { ...wanted, hint: all[index]?.description ?? null, value: initial, required: true };
    chosen = index < 0 ? null : single(context, all[index], inner);
    area.replaceChildren(...(chosen?.element ? [chosen.element] : []));
  }

  const begin = value === undefined ? first : fitting;
  const empty = required ? [] : [h("option", { value: -1, selected: begin < 0 }, "default")];
  const kind = h("select", { onchange: () => choose(Number(kind.value)) }, empty,
    names.map((name, index) => h("option", { value: index, selected: index === begin }, name)));
  choose(begin, value);
  const element = h("div", { class: "wide", "data-place": wanted.place }, explained(`${label}, as`, kind, hint), area);
  return { element, read: (problems) => chosen?.read(problems) };
}

/** A collapsible object, built on first expansion unless it is required or has a value. */
function group(context, schema, { place, title, label, hint, value, required }) {
  let content = null;
  const body = h("div", { role: "group", "aria-label": place });
  const element = h("details", { class: "wide", ontoggle: () => { if (element.open) build({}, required); } },
    h("summary", {}, label), hint ? h("p", { class: "quiet" }, hint) : null, body);

  function build(initial, isThere) {
    if (content) return;
    content = fields(context, place, schema, initial, isThere);
    const leave = isThere && !required ? h("button", { type: "button", onclick: leaveOut }, `Omit ${title}`) : null;
    body.append(content.element, ...(leave ? [leave] : []));
  }

  function leaveOut() {
    content = null;
    body.replaceChildren();
    element.open = false;
    element.querySelector("summary").focus();
    context.changed();
  }

  if (required || value !== undefined) {
    build(value ?? {}, true);
    element.open = true;
  }
  return { element, read: (problems) => content?.read(problems) };
}

function list(context, schema, wanted) {
  const begin = (wanted.value ?? []).map((initial) => ({ initial }));
  const { element, entries } = several(context, schema.items, wanted, begin, () => null);

  function read(problems) {
    const given = [];
    for (const { item, entry } of entries) {
      const found = item.read(problems);
      entry.dataset.position = given.length;
      if (found !== undefined) given.push(found);
    }
    return given.length || mayBeEmpty(wanted, wanted.value?.length) ? given : undefined;
  }

  return { element, read };
}

/** A map from free-form names to values. */
function map(context, schema, wanted) {
  const begin = Object.entries(wanted.value ?? {}).map(([name, initial]) => ({ name, initial }));
  const { element, entries } = several(context, valuesOf(schema), wanted, begin, ({ name = "" }, title) => {
    const control = h("input", { autocomplete: "off" });
    control.value = name;
    return { element: field(`name of ${title}`, control), control };
  });

  function read(problems) {
    const given = new Map();
    for (const { item, entry, key } of entries) {
      const found = item.read(problems);
      const name = key.control.value;
      const fault = nameError(name, found, given);
      setInvalid(key.control, fault !== null);
      if (fault !== null) problems.push(`${wanted.place}: ${fault}`);
      entry.dataset.position = name;
      if (found !== undefined) given.set(name, found);
    }
    return given.size || mayBeEmpty(wanted, wanted.value && Object.keys(wanted.value).length) ? Object.fromEntries(given) : undefined;
  }

  return { element, read };
}

/** The error in an entry's name; null without one. */
function nameError(name, value, others) {
  if (value === undefined) return null;
  if (name === "") return "a value has no name";
  return others.has(name) ? `two values are named ${name}` : null;
}

/** Whether an empty collection is kept: if it is required or was initially empty. */
function mayBeEmpty({ required }, lengthGiven) {
  return required || lengthGiven === 0;
}

/**
 * A list of items that can be added and removed, with its current `entries`; `begin` are the initial
 * items, and `keyOf` makes the name control of an item, if items have names.
 */
function several(context, schema, { place, name, title, label, hint }, begin, keyOf) {
  const entries = new Set();
  const shown = h("ol");
  const add = h("button", { type: "button", onclick: () => { append({}); context.changed(); } }, `Add to ${title}`);
  let count = 0;

  function append(start) {
    count += 1;
    const called = `${title} ${count}`;
    const whole = `${place}.${count}`;
    const key = keyOf(start, called);
    const item = part(context, schema, { place: whole, name, title: called, value: start.initial, required: true });
    const entry = h("li", { "data-item": whole }, key?.element, item.element, h("button", { type: "button", onclick: remove }, `Remove ${called}`));
    const added = { item, entry, key };
    entries.add(added);
    shown.append(entry);

    function remove() {
      entries.delete(added);
      entry.remove();
      add.focus();
      context.changed();
    }
  }

  begin.forEach(append);
  const element = h("div", { class: "wide", role: "group", "aria-label": place },
    h("span", {}, label), hint ? h("p", { class: "quiet" }, hint) : null, shown, add);
  return { element, entries };
}

function hintOf(whole, options) {
  const only = options.length === 1 ? options[0] : {};
  const least = only.minimum ?? only.exclusiveMinimum;
  const most = only.maximum ?? only.exclusiveMaximum;
  const isSimple = whole.default !== undefined && whole.default !== null && typeof whole.default !== "object";
  const said = [
    whole.description ?? null,
    least === undefined ? null : `${only.minimum === undefined ? "Greater than" : "At least"} ${least}.`,
    most === undefined ? null : `${only.maximum === undefined ? "Less than" : "At most"} ${most}.`,
    isSimple ? `Default: ${whole.default}.` : null,
  ];
  return said.filter((each) => each !== null).join(" ");
}
