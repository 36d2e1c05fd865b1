// Names of jobs and files of which a page knows only the ids: looked up together, and remembered.

import { request } from "../core/api.js";
import { h } from "../core/dom.js";
import { copyable } from "./name.js";

const MOST_KNOWN = 2000;
const MOST_ASKED = 100; // per request
const GATHER_MS = 10;
const REPEAT_MS = 2000;
const known = new Map(); // names by id; the oldest are forgotten
let wanted = new Map(); // the texts that wait for the name of an id

/** The name of a job or file as an element: its id until the name has been found. */
function nameText(id) {
  const text = h("bdi", { "data-named": id }, known.get(id) ?? id);
  if (!known.has(id)) want(id, [text], GATHER_MS);
  return text;
}

function want(id, texts, delay) {
  if (!wanted.size) setTimeout(ask, delay);
  wanted.set(id, [...(wanted.get(id) ?? []), ...texts]);
}

async function ask() {
  const asked = [...wanted];
  wanted = new Map();
  for (let first = 0; first < asked.length; first += MOST_ASKED) {
    const part = asked.slice(first, first + MOST_ASKED);
    const found = await request(`/ui/names?${new URLSearchParams(part.map(([id]) => ["of", id]))}`).catch(() => null);
    for (const [id, texts] of part) {
      if (found === null) askAgain(id);
      else name(id, found.names[id] ?? id, texts);
    }
    while (known.size > MOST_KNOWN) known.delete(known.keys().next().value);
  }
}

/** Elements of the page that show the name of an id: also those that a redraw has made to. */
function shownFor(id) {
  return [...document.querySelectorAll(`[data-named="${CSS.escape(id)}"]`)];
}

function name(id, found, texts) {
  known.set(id, found);
  // An element may stand for another row by now.
  for (const text of [...texts, ...shownFor(id)]) if (text.dataset.named === id) text.textContent = found;
}

/** A page that is not redrawn would show the id for good. */
function askAgain(id) {
  const texts = shownFor(id);
  if (texts.length) want(id, texts, REPEAT_MS);
}

/** A link to a job, or to a page below it, by the job's name. */
export function jobLink(id, address = `/ui/jobs/${id}`) {
  return h("a", { href: address, title: id }, nameText(id));
}

/** A link to a job by its name, above its id. */
export function namedJob(id) {
  return h("span", { class: "named" }, jobLink(id), copyable(id));
}

/** A link to a file by its name. */
export function fileLink(id) {
  return h("a", { href: `/ui/data/${encodeURIComponent(id)}`, title: id }, nameText(id));
}
