// Names of jobs and files of which a page knows only the ids: looked up together, and remembered.

import { request } from "../core/api.js";
import { h } from "../core/dom.js";
import { copyable } from "./name.js";

const MOST_KNOWN = 2000;
const MOST_ASKED = 100; // per request
const GATHER_MS = 10;
const known = new Map(); // names by id; the oldest are forgotten
let wanted = new Map(); // the texts that wait for the name of an id

/** The name of a job or file as an element: its id until the name has been found. */
function nameText(id) {
  const text = h("bdi", { "data-named": id }, known.get(id) ?? id);
  if (!known.has(id)) {
    if (!wanted.size) setTimeout(ask, GATHER_MS);
    wanted.set(id, [...(wanted.get(id) ?? []), text]);
  }
  return text;
}

async function ask() {
  const asked = [...wanted];
  wanted = new Map();
  for (let first = 0; first < asked.length; first += MOST_ASKED) {
    const part = asked.slice(first, first + MOST_ASKED);
    const found = await request(`/ui/names?${new URLSearchParams(part.map(([id]) => ["of", id]))}`).catch(() => null);
    if (found === null) continue; // the ids stay, and are asked for again when they are shown again
    for (const [id, texts] of part) {
      known.set(id, found.names[id] ?? id);
      // An element may stand for another row by now.
      for (const text of texts) if (text.dataset.named === id) text.textContent = known.get(id);
    }
    while (known.size > MOST_KNOWN) known.delete(known.keys().next().value);
  }
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
