// Form controls for values that are not objects: a choice, text, a number, or JSON.
//
// Every control is `{ element, read }`: `read(problems)` returns the value, or undefined if it is
// empty, and adds a line to `problems` for invalid text.

import { field, h, setInvalid } from "../core/dom.js";
import { parseExactly } from "../core/exact_json.js";
import { json } from "../core/format.js";

const LONG_TEXT = 10_000;
let hints = 0;

/** A new id for a control's description. */
export function hintId() {
  hints += 1;
  return `hint-${hints}`;
}

/** A select of the values. */
export function choice(values, { label, hint, value, required }) {
  const empty = required ? null : h("option", { value: "" }, "default");
  const control = h("select", {}, empty, values.map((each) => h("option", { value: JSON.stringify(each), selected: each === value }, String(each))));
  return { element: explained(label, control, hint), read: () => (control.value ? JSON.parse(control.value) : undefined) };
}

/** A text input; `list` is the id of a datalist. */
export function text(schema, list, { label, hint, value }) {
  const isLong = (schema.maxLength ?? 0) >= LONG_TEXT || value?.includes("\n");
  const control = isLong ? h("textarea", { rows: 3 }) : h("input", { list, autocomplete: "off" });
  control.value = value ?? "";
  // An initial empty string stays one.
  return { element: explained(label, control, hint), read: () => control.value || (value === "" ? "" : undefined) };
}

/** A number input. */
export function numeric({ place, label, hint, value }) {
  const control = h("input", { inputmode: "decimal", autocomplete: "off", value });

  function read(problems) {
    const written = control.value.trim();
    const found = Number(written);
    const isKept = !Number.isInteger(found) || Number.isSafeInteger(found) || !/^-?\d+$/.test(written);
    const isNumber = Number.isFinite(found) && isKept;
    setInvalid(control, !isNumber);
    if (!isNumber) problems.push(`${place}: ${isKept ? "not a number" : "an integer beyond 2^53 would be rounded; send the request with curl"}`);
    return written && isNumber ? found : undefined;
  }

  return { element: explained(label, control, hint), read };
}

/** A text area for any value, as JSON. */
export function anything({ place, label, hint, value }) {
  const control = h("textarea", { rows: 3, spellcheck: "false" });
  control.value = value === undefined ? "" : json(value, 2);

  function read(problems) {
    let found;
    let isJson = true;
    try {
      if (control.value.trim()) found = parseExactly(control.value);
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

/** A labeled control with its hint. */
export function explained(label, control, hint) {
  if (!hint) return h("div", {}, field(label, control));
  const id = hintId();
  control.setAttribute("aria-describedby", id);
  return h("div", {}, field(label, control), h("small", { id, class: "quiet" }, hint));
}
