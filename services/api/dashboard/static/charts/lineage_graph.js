// The lineage graph of a model family: data and parents to the left of their descendants.

import { withQuery } from "../core/api.js";
import { h } from "../core/dom.js";
import { fileLink, jobLink } from "../job/named.js";

const WIDTH = 230;
const HEIGHT = 64;
const BETWEEN_COLUMNS = 48;
const BETWEEN_ROWS = 16;
const SVG = "http://www.w3.org/2000/svg";

/**
 * The graph of `family`: `{id, parent, data, job}` of each model in topological order, the root first,
 * with its `data` files and the `job` that created it. `chosen` is the id of the page's model.
 */
export function lineageGraph(family, chosen) {
  const { nodes, edges } = layOut(family);
  // Skip empty columns.
  const columns = [...new Set(nodes.map(({ column }) => column))].sort((a, b) => a - b);
  const left = ({ column }) => columns.indexOf(column) * (WIDTH + BETWEEN_COLUMNS);
  const top = ({ row }) => row * (HEIGHT + BETWEEN_ROWS);
  const middle = (node) => top(node) + HEIGHT / 2;
  const width = columns.length * (WIDTH + BETWEEN_COLUMNS) - BETWEEN_COLUMNS;
  const height = Math.max(...nodes.map(top)) + HEIGHT;

  const lines = shape("svg", { width, height, "aria-hidden": "true", focusable: "false" });
  for (const { from, to } of edges) {
    const begin = left(from) + WIDTH;
    lines.append(shape("path", { d: `M ${begin} ${middle(from)} h ${BETWEEN_COLUMNS / 2} V ${middle(to)} H ${left(to)}` }));
  }
  const list = h("ul", {}, nodes.map((node) => {
    const item = node.file === undefined ? modelItem(node.model, chosen) : fileItem(node.file);
    item.style.left = `${left(node)}px`;
    item.style.top = `${top(node)}px`;
    item.style.width = `${WIDTH}px`;
    item.style.height = `${HEIGHT}px`;
    return item;
  }));
  const graph = h("div", { class: "lineage" }, lines, list);
  graph.style.width = `${width}px`;
  graph.style.height = `${height}px`;
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Lineage graph" }, graph);
}

/**
 * Assign columns and rows to a family's models and files, and list the edges. Models of a generation
 * share a column, with their data in the column before it; a model's own row is left free there, so
 * that no edge from a parent crosses a file. A file is placed at the first model that read it.
 */
function layOut(family) {
  const below = Map.groupBy(family.slice(1), ({ parent }) => parent);
  const generations = new Map();
  const readers = new Map();
  for (const [index, { id, parent, data }] of family.entries()) {
    generations.set(id, index ? generations.get(parent) + 1 : 0);
    for (const file of data) if (!readers.has(file)) readers.set(file, id);
  }
  const models = new Map();
  const files = new Map();

  /** Place a model and its descendants starting at a row; returns the next free row. */
  function place(model, row) {
    const column = 2 * generations.get(model.id) + 1;
    models.set(model.id, { model, column, row });
    const own = model.data.filter((file) => readers.get(file) === model.id);
    own.forEach((file, index) => files.set(file, { file, column: column - 1, row: row + 1 + index }));
    const next = (below.get(model.id) ?? []).reduce((free, child) => place(child, free), row);
    return Math.max(next, row + 1 + own.length);
  }

  place(family[0], 0);
  const edges = family.flatMap(({ id, parent, data }, index) => [
    ...(index ? [{ from: models.get(parent), to: models.get(id) }] : []),
    ...data.map((file) => ({ from: files.get(file), to: models.get(id) })),
  ]);
  return { nodes: [...models.values(), ...files.values()], edges };
}

function modelItem({ id, job, isKnown }, chosen) {
  const isChosen = id === chosen;
  const name = h("bdi", {}, id);
  const origin = job ? jobLink(job) : h("span", { class: "quiet" }, isKnown ? "registered" : "not in the registry");
  return h("li", { class: isChosen ? "chosen" : null },
    isKnown ? h("a", { href: withQuery("/ui/lineage", { model: id }), title: id, "aria-current": isChosen ? "page" : null }, name) : name,
    origin);
}

function fileItem(file) {
  return h("li", { class: "file" }, h("span", { class: "quiet" }, "data"), fileLink(file));
}

function shape(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
