// Chat with one model, or with two side by side.

import { request, streamChat } from "../core/api.js";
import { field, h, sameBy, show } from "../core/dom.js";
import { replySlot } from "../core/live.js";
import { tellWait } from "../job/serving_wait.js";

const SUGGESTED_MODELS = 100;
const MAX_TOKENS = 1024;
const ASK_AGAIN_MS = 1000;
const OF_MODEL = "default"; // in the URL: a setting that is left to the model

export async function chatView({ place, signal, query, setQuery }) {
  const columns = [column("Model", query.get("model"), changed, answered)];
  const sides = h("div", { class: "sides" });
  const same = h("div");
  const system = h("input", { value: query.get("system") ?? "", onchange: changed });
  const temperature = h("input", { type: "number", min: 0, max: 2, step: 0.1, value: given(query, "temperature", 0.7), onchange: changed });
  const maxTokens = h("input", { type: "number", min: 1, step: 1, value: given(query, "max_tokens", MAX_TOKENS), onchange: changed });
  const message = h("textarea", { rows: 3, onkeydown: sendByEnter });
  const send = h("button", { type: "submit", class: "primary" }, "Send");
  const stop = h("button", { type: "button", hidden: true, onclick: stopAll }, "Stop");
  const clear = h("button", { type: "button", onclick: () => columns.forEach((each) => each.clear()) }, "Clear");
  const second = h("button", { type: "button", onclick: compare }, "Compare with another model");
  const missing = h("p", { class: "error", role: "alert" });
  let asking = 0;
  let stopping = new AbortController();

  function changed() {
    const parameters = { temperature: temperature.value || OF_MODEL, max_tokens: maxTokens.value || OF_MODEL, system: system.value };
    setQuery({ model: columns[0].model, other: columns[1]?.model ?? "", ...parameters });
    const body = { model: columns[0].model || "MODEL", messages: [{ role: "user", content: "Hello" }] };
    show(same, sameBy(`/v1/chat/completions --json '${JSON.stringify(body)}'`, `temper chat ${columns[0].model || "MODEL"}`));
  }

  function draw() {
    sides.replaceChildren(...columns.map((each) => each.element));
    second.textContent = columns.length > 1 ? "Use one model" : "Compare with another model";
  }

  function compare() {
    if (columns.length > 1) columns.pop().stop();
    else columns.push(column("Other model", "", changed, answered));
    draw();
    changed();
  }

  function sendByEnter(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!asking) event.target.form.requestSubmit();
  }

  async function ask(event) {
    event.preventDefault();
    const asked = columns.filter((each) => each.model);
    const text = message.value;
    if (asking) return;
    missing.textContent = !asked.length ? "Choose a model." : !text.trim() ? "Enter a message." : "";
    if (missing.textContent) return;
    message.value = "";
    await Promise.all(asked.map((each) => answered(each, text)));
  }

  /** Send a text to one side, independently of the other. */
  async function answered(side, text) {
    const options = Object.fromEntries(Object.entries({ temperature, max_tokens: maxTokens })
      .filter(([, input]) => input.value !== "").map(([name, input]) => [name, Number(input.value)]));
    count(1);
    await side.ask(text, system.value, options, AbortSignal.any([stopping.signal, signal]));
    count(-1);
  }

  function count(change) {
    asking += change;
    send.disabled = asking > 0;
    stop.hidden = !asking;
  }

  function stopAll() {
    stopping.abort();
    stopping = new AbortController();
  }

  if (query.get("other")) columns.push(column("Other model", query.get("other"), changed, answered));
  place.append(h("h1", {}, "Chat"), modelNames(signal), sides,
    h("form", { class: "ask", onsubmit: ask }, field("Message (Enter to send, Shift+Enter for a new line)", message), missing,
      h("div", { class: "row" }, send, stop, clear, second),
      h("div", { class: "row" }, field("System prompt", system), field("Temperature", temperature), field("Max tokens", maxTokens))),
    same);
  draw();
  changed();
}

/** A setting from the URL; empty where the model's own is wanted. */
function given(query, name, usual) {
  const found = query.get(name) ?? String(usual);
  return found === OF_MODEL ? "" : found;
}

/** One model and its side of the conversation; `answered` sends a text to a side. */
function column(label, model, changed, answered) {
  const name = h("input", { list: "model-names", value: model ?? "", onchange: () => changed() });
  const log = h("div", { role: "log", "aria-label": `Conversation: ${label}`, tabindex: "0" });
  let turns = [];
  let leaving = new AbortController();
  let again = null;

  async function ask(text, system, options, ended) {
    const begun = performance.now();
    const answer = h("pre");
    const note = h("p", { class: "quiet" }, "waiting for other replies in this browser");
    const exchange = h("div", {}, turn("user", h("pre", {}, text)), turn("assistant", answer, note));
    const before = turns; // "Clear" replaces it
    again?.remove(); // only the latest exchange can be retried
    log.append(exchange);
    const messages = [...(system ? [{ role: "system", content: system }] : []), ...before, { role: "user", content: text }];
    const signal = AbortSignal.any([ended, leaving.signal]);
    let giveBack = () => {};
    const waiting = new AbortController();
    try {
      giveBack = await replySlot(signal);
      note.textContent = "waiting for the model";
      let isCut = false;
      tellWait(note, name.value, AbortSignal.any([signal, waiting.signal]));
      for await (const { text: piece, reason } of streamWhenReady({ model: name.value, messages, ...options }, signal)) {
        isCut ||= reason === "length";
        if (!piece) continue;
        waiting.abort();
        note.textContent = "generating";
        answer.append(piece);
        answer.scrollIntoView({ block: "nearest" });
      }
      waiting.abort(); // an answer may be empty
      const seconds = ((performance.now() - begun) / 1000).toFixed(1);
      note.textContent = isCut ? `${seconds} s, truncated at the maximum number of tokens` : `${seconds} s`;
    } catch (error) {
      waiting.abort();
      note.textContent = signal.aborted ? "stopped" : error.message;
      note.className = signal.aborted ? "quiet" : "error";
      if (turns === before) again = offerRetry(exchange, text, before);
      // Unanswered messages are not part of the next request.
      if (!answer.textContent) return;
    } finally {
      giveBack();
    }
    if (turns !== before) return;
    turns = [...before, { role: "user", content: text }, { role: "assistant", content: answer.textContent }];
  }

  /** A button that discards an exchange and resends its text. */
  function offerRetry(exchange, text, before) {
    const tryAgain = () => {
      exchange.remove();
      turns = before;
      log.focus();
      answered(side, text);
    };
    const button = h("button", { type: "button", onclick: tryAgain }, "Try again");
    exchange.lastElementChild.append(button);
    return button;
  }

  function clear() {
    leaving.abort();
    leaving = new AbortController();
    turns = [];
    log.replaceChildren();
  }

  const side = {
    element: h("section", { class: "side" }, field(label, name), log),
    get model() { return name.value; },
    ask,
    clear,
    stop: () => leaving.abort(),
  };
  return side;
}

/** Stream a completion; a model whose engine is not ready in the gateway's time is asked again. */
async function* streamWhenReady(body, signal) {
  for (;;) {
    try {
      yield* streamChat(body, signal);
      return;
    } catch (error) {
      if (error.code !== "model_not_ready" || signal.aborted) throw error;
    }
    await new Promise((resolve) => { setTimeout(resolve, ASK_AGAIN_MS); });
    signal.throwIfAborted();
  }
}

function turn(role, ...content) {
  return h("div", { class: `turn ${role}` }, h("strong", {}, role), content);
}

/** Suggested names; others, such as checkpoints of running jobs, can be typed. */
function modelNames(signal) {
  const names = h("datalist", { id: "model-names" });
  request(`/v1/models?limit=${SUGGESTED_MODELS}`, { signal })
    .then((page) => names.append(...page.data.map((model) => h("option", { value: model.id }))))
    .catch(() => {}); // suggestions are optional
  return names;
}
