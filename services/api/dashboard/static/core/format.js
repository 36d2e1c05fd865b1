// Formatting of numbers, times and text.

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

/** Seconds as the two largest units, as in "1h 05m". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const whole = Math.max(0, Math.round(seconds));
  const first = UNITS.findIndex(([, size]) => whole >= size);
  if (first < 0) return seconds > 0 ? "<1s" : "0s";
  const [unit, size] = UNITS[first];
  const next = UNITS[first + 1];
  const rest = next ? ` ${String(Math.floor((whole % size) / next[1])).padStart(2, "0")}${next[0]}` : "";
  return `${Math.floor(whole / size)}${unit}${rest}`;
}

/** A Unix time in the user's time zone. */
export function time(seconds) {
  return seconds === null || seconds === undefined ? "" : new Date(seconds * 1000).toLocaleString();
}

/** A number with at most four significant digits, or thousands separators: no digit before the point is rounded away. */
export function number(value, digits = 4) {
  if (value === null || value === undefined) return "";
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e5) return value.toExponential(digits - 2);
  return size < 10 ** (digits - 1) ? String(Number(value.toPrecision(digits))) : Math.round(value).toLocaleString("en-US");
}

const MOST_DECIMALS = 12;

/** A share in percent with at least so many decimals: it is 0 % or 100 % only if nothing or everything is meant. */
export function percent(share, decimals = 1) {
  for (let used = decimals; used < MOST_DECIMALS; used += 1) {
    const text = (100 * share).toFixed(used);
    const [shown, whole] = [Math.abs(Number(text)), Math.abs(share)];
    if ((shown === 0) === (whole === 0) && (shown === 100) === (whole === 1)) return `${text}%`;
  }
  return `${100 * share}%`;
}

/** A share in percent, without a decimal that is 0. */
export function shortPercent(share) {
  return percent(share).replace(/\.0%$/, "%");
}

/** How many rows a list shows; "first" ones of more. */
export function counted(count, one, several, hasMore) {
  return `${hasMore ? "The first " : ""}${number(count)} ${count === 1 ? one : several}`;
}

/** A number with its sign. */
export function signed(value) {
  return `${value >= 0 ? "+" : ""}${number(value)}`;
}

/** A wire name with spaces for underscores. */
export function words(name) {
  return name.replaceAll("_", " ");
}

/** A number of bytes in the largest unit that leaves at least 1. */
export function bytes(count) {
  const unit = Math.max(0, BYTE_UNITS.findLastIndex((_, power) => count >= 1024 ** power));
  const value = count / 1024 ** unit;
  return `${unit ? value.toFixed(value < 10 ? 1 : 0) : value} ${BYTE_UNITS[unit]}`;
}

const BIDI_CONTROLS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Escape bidirectional control characters, which would reorder the text around them. */
export function oneDirection(text) {
  return text.replace(BIDI_CONTROLS, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A value as JSON without bidirectional control characters. */
export function json(value, indent) {
  return oneDirection(JSON.stringify(value, null, indent));
}

/** Quote a text as one shell argument. */
export function shellQuoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** How long a job has run, in seconds, without pauses; null where these are not known apart. */
export function took(job) {
  if (job.run_seconds !== null && job.run_seconds !== undefined) return job.run_seconds;
  return job.started_at === null || job.status === "paused" ? null : (job.finished_at ?? Date.now() / 1000) - job.started_at;
}

/** Whether a job has a final status. */
export function isFinal(job) {
  return ["succeeded", "failed", "cancelled"].includes(job.status);
}
