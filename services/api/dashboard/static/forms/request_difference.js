// The differences between two requests.

import { isObject } from "./schema.js";

/** The differing fields by dotted name; lists are compared as a whole. */
export function differences(was, is, name = "") {
  if (JSON.stringify(was) === JSON.stringify(is)) return [];
  if (!isObject(was) || !isObject(is)) return [{ name: name || "the body", was, is }];
  const keys = new Set([...Object.keys(was), ...Object.keys(is)]);
  return [...keys].flatMap((key) => differences(was[key], is[key], name ? `${name}.${key}` : key));
}

/** Drop null fields: they mean the same as absent ones. */
export function withoutNulls(value) {
  if (!isObject(value)) return value;
  const given = Object.entries(value).filter(([, item]) => item !== null);
  return Object.fromEntries(given.map(([key, item]) => [key, withoutNulls(item)]));
}
