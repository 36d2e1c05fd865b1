// What differs between two requests.

/** The fields that differ, by their dotted names. Lists are compared as a whole. */
export function differences(was, is, name = "") {
  if (JSON.stringify(was) === JSON.stringify(is)) return [];
  if (!isObject(was) || !isObject(is)) return [{ name: name || "the body", was, is }];
  const keys = new Set([...Object.keys(was), ...Object.keys(is)]);
  return [...keys].flatMap((key) => differences(was[key], is[key], name ? `${name}.${key}` : key));
}

/** The same without fields that are null: a request means the same without them. */
export function withoutNulls(value) {
  if (!isObject(value)) return value;
  const given = Object.entries(value).filter(([, item]) => item !== null);
  return Object.fromEntries(given.map(([key, item]) => [key, withoutNulls(item)]));
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
