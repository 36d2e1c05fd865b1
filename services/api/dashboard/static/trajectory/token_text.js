// The tokens of a trajectory as text, colored by an overlay, with details of the selected one.

import { request, withQuery } from "../core/api.js";
import { facts, field, h, select } from "../core/dom.js";
import { json, number, oneDirection } from "../core/format.js";
import { OVERLAYS } from "./overlays.js";

const PAGE = 2000;
const PART_OF_CHARACTER = "·";

/**
 * The text of the tokens at `path`, those of one `sequence` of an agent's session, with `chosen` as the
 * initial overlay; `onChoose` is called with a new one, and `stepAddress` returns the URL of a training
 * step. The arrow keys move between tokens.
 */
export class TokenText {
  constructor(path, sequence, chosen, onChoose, signal, stepAddress) {
    this.path = path;
    this.sequence = sequence;
    this.signal = signal;
    this.stepAddress = stepAddress;
    this.step = h("p", { class: "quiet", hidden: true });
    this.tokens = [];
    this.next = 0;
    this.loading = null;
    this.current = -1;
    this.overlay = OVERLAYS[chosen] ? chosen : "origin";
    this.list = h("div", {
      class: "tokens",
      role: "listbox",
      tabindex: "0",
      "aria-label": "Tokens; use the arrow keys to move",
      onkeydown: (event) => this.move(event),
      onclick: (event) => this.select(Number(event.target.closest("[role=option]")?.dataset.position ?? -1)),
      onmouseover: (event) => this.showDetails(Number(event.target.closest("[role=option]")?.dataset.position ?? this.current)),
      onmouseleave: () => this.showDetails(this.current),
    });
    this.legend = h("ul", { class: "row legend tokens-legend" });
    this.details = h("div", { class: "token-details", role: "status" });
    this.problem = h("p", { class: "quiet", role: "alert" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.load() });
    const names = Object.fromEntries(Object.entries(OVERLAYS).map(([key, { name }]) => [key, name]));
    this.element = h("div", {},
      h("div", { class: "row" }, field("Color by", select(names, this.overlay, (overlay) => {
        this.overlay = overlay;
        onChoose(overlay);
        this.paint();
      }))),
      this.step, this.legend, this.problem, this.list, this.more, this.details);
  }

  /** Load the next page of tokens, unless one is being loaded already; whether there are more now. */
  load() {
    this.loading ??= this.loadPage().finally(() => { this.loading = null; });
    return this.loading;
  }

  async loadPage() {
    this.more.disabled = true;
    let page;
    try {
      page = await request(withQuery(this.path, { start: this.next, limit: PAGE, sequence: this.sequence }), { signal: this.signal });
    } catch (error) {
      if (!this.signal.aborted) this.problem.textContent = error.message;
      return false;
    } finally {
      this.more.disabled = false;
    }
    this.tokens.push(...page.data);
    this.list.append(...page.data.map((token) => this.option(token)));
    this.next = page.next_start;
    this.more.hidden = this.next === null;
    this.step.hidden = page.step === null;
    this.step.replaceChildren("Trained on in ", h("a", { href: this.stepAddress(page.step) }, `step ${page.step}`), ".");
    this.more.textContent = `Show more (${number(page.total)} tokens in total)`;
    this.problem.textContent = page.text_error ? `Showing token ids only: ${page.text_error}` : "";
    this.paint();
    return page.data.length > 0;
  }

  /** Load up to a token and select it. */
  async reveal(position) {
    while (position >= this.tokens.length && this.next !== null && await this.load());
    this.select(position);
  }

  option(token) {
    return h("span", {
      role: "option",
      id: `token-${token.position}`,
      "data-position": token.position,
      "aria-selected": "false",
      "aria-label": label(token),
    }, shown(token));
  }

  /** Color every token by the current overlay. */
  paint() {
    const { classOf, markOf, legend } = OVERLAYS[this.overlay];
    let mark = null;
    for (const token of this.tokens) {
      const option = this.list.children[token.position];
      option.className = `${token.origin} ${classOf(token)}`;
      const now = markOf ? markOf(token) : null;
      // Mark only the start of a run of equal marks.
      if (now !== null && now !== mark) option.dataset.mark = now;
      else delete option.dataset.mark;
      if (now !== null) mark = now;
    }
    this.legend.replaceChildren(...legend.map(([name, text]) => h("li", { class: "swatch" }, h("span", { class: `sampled ${name}` }, "abc"), ` ${text}`)));
    this.showDetails(this.current);
  }

  move(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10, Home: -Infinity, End: Infinity };
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.select(Math.min(this.tokens.length - 1, Math.max(0, this.current + steps[event.key])));
  }

  select(position) {
    if (!this.tokens[position]) return;
    this.list.children[this.current]?.setAttribute("aria-selected", "false");
    this.current = position;
    const option = this.list.children[position];
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    this.list.setAttribute("aria-activedescendant", option.id);
    this.showDetails(position);
  }

  /** Show the details of a token. */
  showDetails(position) {
    const token = this.tokens[position];
    if (!token) {
      this.details.replaceChildren("Select a token to see its details.");
      return;
    }
    const known = Object.entries(OVERLAYS).filter(([, { tell }]) => tell(token) !== "none");
    this.details.replaceChildren(facts({
      Token: h("bdi", {}, label(token)),
      Position: `${token.position} (id ${token.id})`,
      ...Object.fromEntries(known.map(([, { name, tell }]) => [name[0].toUpperCase() + name.slice(1), tell(token)])),
    }));
  }
}

/** A token as a quoted JSON string, which has no invisible characters; its id if it has no text. */
function label(token) {
  if (token.text === null) return `id ${token.id}`;
  return token.text === "" ? "part of a character" : json(token.text);
}

function shown(token) {
  if (token.text === null) return `${token.id} `;
  if (token.text === "") return PART_OF_CHARACTER;
  return oneDirection(token.text).replaceAll("\n", "⏎\n").replaceAll("\t", "⇥\t");
}
