// The differences between two requests.

import { isObject } from "../core/exact_json.js";

/** The differing fields by dotted name; lists are compared as a whole. */
export function differences(was, is, name = "") {
  if (JSON.stringify(was) === JSON.stringify(is)) return [];
  if (!isObject(was) || !isObject(is)) return [{ name: name || "the body", was, is }];
  const keys = new Set([...Object.keys(was), ...Object.keys(is)]);
  return [...keys].flatMap((key) => differences(was[key], is[key], name ? `${name}.${key}` : key));
}
