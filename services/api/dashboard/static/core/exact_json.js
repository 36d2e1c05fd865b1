// JSON whose numbers keep their digits: an integer beyond 2^53 would become its neighbor, and 1.0 would become 1.

// A browser without raw JSON rounds, as it does everywhere else.
const isRaw = JSON.isRawJSON ?? (() => false);
const asWritten = JSON.rawJSON ?? Number;

/** Parse JSON; a number that JavaScript would write otherwise is kept as it is written, for JSON.stringify. */
export function parseExactly(text) {
  return JSON.parse(text, (_, value, context) => {
    const source = context?.source; // of numbers, texts and other single values
    return typeof value === "number" && source !== undefined && String(value) !== source ? asWritten(source) : value;
  });
}

/** A parsed value with all numbers rounded to what can be computed with. */
export function rounded(value) {
  return JSON.parse(JSON.stringify(value));
}

/** A copy of a parsed value; lists and objects are new. */
export function copyOf(value) {
  return parseExactly(JSON.stringify(value));
}

/** Whether a parsed value is a JSON object. */
export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !isRaw(value);
}
