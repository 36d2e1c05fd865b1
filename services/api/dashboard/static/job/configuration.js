// The differences of a job's request from the defaults or from another job's.

import { latestOf, request } from "../core/api.js";
import { excerpt, field, h, sameBy, table } from "../core/dom.js";
import { isObject, rounded } from "../core/exact_json.js";
import { json } from "../core/format.js";
import { differences } from "../forms/request_difference.js";
import { bodyOf, holds, resolve, variants } from "../forms/schema.js";

/** A collapsible section that loads when expanded; initially expanded if there is an `other` job. */
export function configurationSection(id, other, onCompare, signal) {
  const place = h("div", { "aria-live": "polite" });
  const problem = h("p", { class: "error", role: "alert" });
  const against = h("input", { value: other ?? "", placeholder: "defaults", spellcheck: "false" });

  const load = latestOf(async (latest) => {
    problem.textContent = "";
    place.replaceChildren(await (against.value ? fromJob(id, against.value.trim(), latest) : fromDefaults(id, latest)));
  }, (error) => { problem.textContent = error.message; }, signal);

  const compare = (event) => {
    event.preventDefault();
    onCompare(against.value.trim());
    load();
  };
  return h("details", { open: Boolean(other), ontoggle: (event) => { if (event.target.open && !place.children.length) load(); } },
    h("summary", {}, "Differences from the defaults or another job"),
    h("form", { class: "row", onsubmit: compare }, field("Other job", against), h("button", {}, "Compare")),
    problem, place, sameBy(`/v1/jobs/${id}/request`));
}

async function fromDefaults(id, signal) {
  const [made, description] = await Promise.all([request(`/v1/jobs/${id}/request`, { signal, isExact: true }), request("/ui/openapi.json", { signal })]);
  if (made.path === null) return h("p", { class: "quiet" }, "Jobs of this kind have no request to compare.");
  const columns = { Field: ({ name }) => name, Value: ({ is }) => excerpt(json(is)), Default: ({ was }) => excerpt(was === undefined ? "none" : json(was)) };
  return table("Changed from the defaults", columns, changed(description, bodyOf(description, made.path).schema, made.body), "All fields have their default values.");
}

async function fromJob(id, other, signal) {
  const [one, two] = await Promise.all([id, other].map((each) => request(`/v1/jobs/${encodeURIComponent(each)}/request`, { signal, isExact: true })));
  const shown = (value) => (value === undefined ? null : excerpt(json(value)));
  const columns = { Field: ({ name }) => name, "This job": ({ was }) => shown(was), "Other job": ({ is }) => shown(is) };
  // A request of an earlier version lacks fields that are null in others.
  const found = differences(one.body, two.body).filter(({ was, is }) => (was ?? is ?? null) !== null);
  return table("Differs from the other job", columns, found, "The requests are identical.");
}

/** Fields of a value that differ from their schema's defaults, by dotted name. */
function changed(description, schema, value, name = "") {
  const fitting = variants(description, schema).find((each) => each.properties && holds(description, each, value));
  const was = resolve(description, schema).default;
  if (!fitting || !isObject(value)) {
    const isEmpty = value === null || (Array.isArray(value) && !value.length);
    return (was === undefined ? isEmpty : JSON.stringify(was) === JSON.stringify(rounded(value))) ? [] : [{ name, was, is: value }];
  }
  return Object.entries(value).flatMap(([key, item]) => changed(description, fitting.properties[key], item, name ? `${name}.${key}` : key));
}
