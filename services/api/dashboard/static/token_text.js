// The tokens of a trajectory as text, colored by what is known of each; one of them is told in full.

import { request, withQuery } from "./api.js";
import { facts, field, h, select } from "./dom.js";
import { json, number, oneDirection } from "./format.js";
import { OVERLAYS } from "./overlays.js";

const PAGE = 2000;
const PART_OF_CHARACTER = "·";

/**
 * The text of the tokens at `path`, with `chosen` as the first overlay; `onChoose` is told of
 * another, and `stepAddress` makes the address of a training step. The arrow keys move from token to
 * token.
 */
export class TokenText {
  constructor(path, chosen, onChoose, signal, stepAddress) {
    this.path = path;
    this.signal = signal;
    this.stepAddress = stepAddress;
    this.step = h("p", { class: "quiet", hidden: true });
    this.tokens = [];
    this.next = 0;
    this.current = -1;
    this.overlay = OVERLAYS[chosen] ? chosen : "origin";
    this.list = h("div", {
      class: "tokens",
      role: "listbox",
      tabindex: "0",
      "aria-label": "Tokens; the arrow keys move",
      onkeydown: (event) => this.move(event),
      onclick: (event) => this.select(Number(event.target.closest("[role=option]")?.dataset.position ?? -1)),
      onmouseover: (event) => this.tell(Number(event.target.closest("[role=option]")?.dataset.position ?? this.current)),
      onmouseleave: () => this.tell(this.current),
    });
    this.legend = h("ul", { class: "row legend tokens-legend" });
    this.told = h("div", { class: "told", role: "status" });
    this.problem = h("p", { class: "quiet", role: "alert" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.load() });
    const names = Object.fromEntries(Object.entries(OVERLAYS).map(([key, { name }]) => [key, name]));
    this.element = h("div", {},
      h("div", { class: "row" }, field("Color by", select(names, this.overlay, (overlay) => {
        this.overlay = overlay;
        onChoose(overlay);
        this.paint();
      }))),
      this.step, this.legend, this.problem, this.list, this.more, this.told);
  }

  /** The next page of tokens. */
  async load() {
    this.more.disabled = true;
    let page;
    try {
      page = await request(withQuery(this.path, { start: this.next, limit: PAGE }), { signal: this.signal });
    } catch (error) {
      if (!this.signal.aborted) this.problem.textContent = error.message;
      return;
    } finally {
      this.more.disabled = false;
    }
    this.tokens.push(...page.data);
    this.list.append(...page.data.map((token) => this.option(token)));
    this.next = page.next_start;
    this.more.hidden = this.next === null;
    this.step.hidden = page.step === null;
    this.step.replaceChildren("Learned from in ", h("a", { href: this.stepAddress(page.step) }, `step ${page.step}`), ".");
    this.more.textContent = `Show more of ${number(page.total)} tokens`;
    this.problem.textContent = page.text_error ? `The tokens are shown by their ids: ${page.text_error}` : "";
    this.paint();
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

  /** Color every token by the chosen overlay. */
  paint() {
    const { classOf, markOf, legend } = OVERLAYS[this.overlay];
    let mark = null;
    for (const token of this.tokens) {
      const option = this.list.children[token.position];
      option.className = `${token.origin} ${classOf(token)}`;
      const now = markOf ? markOf(token) : null;
      // Where a run of equal marks begins.
      if (now !== null && now !== mark) option.dataset.mark = now;
      else delete option.dataset.mark;
      if (now !== null) mark = now;
    }
    this.legend.replaceChildren(...legend.map(([name, text]) => h("li", { class: "swatch" }, h("span", { class: `sampled ${name}` }, "abc"), ` ${text}`)));
    this.tell(this.current);
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
    this.tell(position);
  }

  /** Everything that is known of a token. */
  tell(position) {
    const token = this.tokens[position];
    if (!token) {
      this.told.replaceChildren("Choose a token to see what is known of it.");
      return;
    }
    const known = Object.entries(OVERLAYS).filter(([, { tell }]) => tell(token) !== "none");
    this.told.replaceChildren(facts({
      Token: h("bdi", {}, label(token)),
      Position: `${token.position} (id ${token.id})`,
      ...Object.fromEntries(known.map(([, { name, tell }]) => [name[0].toUpperCase() + name.slice(1), tell(token)])),
    }));
  }
}

/** A token in quotes, in which nothing is invisible; an id where there is no text. */
function label(token) {
  if (token.text === null) return `id ${token.id}`;
  return token.text === "" ? "part of a character" : json(token.text);
}

function shown(token) {
  if (token.text === null) return `${token.id} `;
  if (token.text === "") return PART_OF_CHARACTER;
  return oneDirection(token.text).replaceAll("\n", "⏎\n").replaceAll("\t", "⇥\t");
}
