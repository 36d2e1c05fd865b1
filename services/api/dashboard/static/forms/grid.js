// The grid of a sweep: the requests of one job with some of its fields varied.

import { copyOf, isObject, parseExactly } from "../core/exact_json.js";

export const MOST_JOBS = 64;

/** The dotted names of the fields of a request that hold one value; names with dots of their own are left out. */
export function leavesOf(value, name = "") {
  if (!isObject(value)) return Array.isArray(value) ? [] : [name];
  return Object.entries(value).filter(([key]) => !key.includes(".")).flatMap(([key, item]) => leavesOf(item, name ? `${name}.${key}` : key));
}

/** The dotted names of all fields of a request; a list is one, and so is an object that has names with dots. */
export function fieldsOf(value, name = "") {
  const keys = isObject(value) ? Object.keys(value) : [];
  if (!keys.length || keys.some((key) => key.includes("."))) return name ? [name] : [];
  return keys.flatMap((key) => fieldsOf(value[key], name ? `${name}.${key}` : key));
}

/** The values in a text, separated by commas: JSON where they are, otherwise texts. */
export function valuesOf(text) {
  return text.split(",").map((each) => each.trim()).filter(Boolean).map((each) => {
    try {
      return parseExactly(each);
    } catch {
      return each;
    }
  });
}

/** All combinations of `varied`, a list of a dotted `name` and its `values`; each is a map by name. */
export function combinations(varied) {
  return varied.reduce((found, { name, values }) => found.flatMap((one) => values.map((value) => new Map([...one, [name, value]]))), [new Map()]);
}

/** A request with the values of a combination. */
export function withValues(request, combination) {
  const made = copyOf(request);
  for (const [name, value] of combination) {
    const path = name.split(".");
    const last = path.pop();
    let place = made;
    for (const key of path) {
      if (!isObject(place[key])) place[key] = {};
      place = place[key];
    }
    place[last] = value;
  }
  return made;
}

/** The value of a dotted name in a request; undefined without one. */
export function valueAt(request, name) {
  return name.split(".").reduce((place, key) => (isObject(place) ? place[key] : undefined), request);
}

/** A combination as a text, with the last part of each name. */
export function described(combination) {
  return [...combination].map(([name, value]) => `${name.slice(name.lastIndexOf(".") + 1)}=${typeof value === "string" ? value : JSON.stringify(value)}`).join(" ");
}
