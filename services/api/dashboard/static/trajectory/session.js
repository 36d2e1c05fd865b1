// The turns of an agent's session as a tree; each leads to its tokens.

import { latestOf, request, withQuery } from "../core/api.js";
import { h, whole } from "../core/dom.js";
import { number, oneDirection, words } from "../core/format.js";

/**
 * The tree of the turns at `path`. A turn of the sequence on show is selected among `tokens`; one of
 * another sequence is a link to it that keeps the color.
 */
export async function sessionTree(path, { sequence, color }, tokens, signal) {
  const page = await request(path, { signal });
  const shown = Number(sequence ?? 0);
  const place = h("div", {});
  const problem = h("p", { class: "error", role: "alert" });
  const more = h("button", { type: "button", hidden: page.next_start === null, onclick: () => load() }, `Show more (${number(page.total)} turns in total)`);
  const roots = h("ol", { class: "turn-tree" });
  const known = new Map();
  const add = (turns) => turns.forEach((turn) => {
    const item = h("li", {}, summary(turn, shown, color, tokens));
    const parent = known.get(turn.parent);
    let list = roots;
    if (parent) {
      // A conversation reads downward; only what forks off it is indented.
      if (parent.continued) parent.item.append(list = h("ol"));
      else list = parent.list;
      parent.continued = true;
    }
    list.append(item);
    known.set(turn.number, { item, list, continued: false });
  });
  let next = page.next_start;
  const load = latestOf(async (latest) => {
    problem.textContent = "";
    const further = await request(withQuery(path, { start: next }), { signal: latest });
    add(further.data);
    next = further.next_start;
    more.hidden = next === null;
  }, (error) => { problem.textContent = error.message; }, signal);
  add(page.data);
  place.append(
    h("h2", {}, `Session: ${number(page.total)} turns`),
    h("p", { class: "quiet" }, "Each turn continues the tokens of the one above it, or of the one that it forks from. What the agent rewrote begins a new sequence; answers that it asked for again are discarded, and requests without tools beside such with tools are auxiliary."),
    page.text_error ? h("p", { class: "quiet" }, `Without text: ${page.text_error}`) : "",
    roots, problem, more);
  return place;
}

function summary(turn, shown, color, tokens) {
  const name = `Turn ${turn.number + 1}`;
  const isShown = turn.sequence === shown;
  const query = withQuery("", { sequence: turn.sequence, color, token: turn.token_start });
  const show = (event) => {
    event.preventDefault();
    tokens.reveal(turn.token_start);
  };
  return h("details", {},
    h("summary", {},
      tokens && isShown ? h("a", { href: query, onclick: show }, name) : h("a", { href: query }, name),
      turn.role === "agent" ? "" : h("strong", {}, ` ${words(turn.role)}`),
      h("span", { class: "quiet" }, ` ${number(turn.inserted_tokens)} read, ${number(turn.sampled_tokens)} written `),
      h("bdi", {}, oneDirection(turn.text ?? "").slice(0, 80))),
    turn.inserted === null ? "" : h("div", { class: "turn" }, h("strong", {}, "read"), whole(turn.inserted)),
    turn.text === null ? "" : h("div", { class: "turn assistant" }, h("strong", {}, "wrote"), whole(turn.text)));
}
