// Tail of a job's log, read by byte ranges as it grows.

import { requestRange } from "../core/api.js";
import { followEnd, h, sameBy, show } from "../core/dom.js";
import { bytes } from "../core/format.js";

const MOST_BYTES = 65_536;
const MOST_LINES = 200;
const CONTROL_SEQUENCES = /\u001b\[[0-?]*[ -/]*[@-~]/g;

export const LOG = "log.txt";

export class LogTail {
  constructor(jobId) {
    this.path = `/v1/jobs/${jobId}/artifacts/${LOG}`;
    this.about = h("p", { class: "quiet" });
    // Not a live region: a growing log would drown out every other announcement.
    this.lines = h("pre", { class: "log", role: "log", "aria-live": "off", tabindex: "0", "aria-label": "Log, newest last" });
    this.element = h("section", {}, h("h2", {}, "Log"), this.about, this.lines, sameBy(`${this.path} --range -${MOST_BYTES}`, `temper tail --follow ${jobId}`));
    this.reset();
  }

  reset() {
    this.end = 0;
    this.decoder = new TextDecoder();
    this.unfinished = "";
    this.lines.replaceChildren();
    this.lines.hidden = true;
  }

  /** Show the tail of the log, now `size` bytes long; only new bytes are read. */
  async update(size, signal) {
    if (size === 0) {
      this.reset();
      this.about.textContent = "No log output yet.";
    }
    if (size === this.end) return;
    const known = size < this.end ? 0 : this.end;
    const from = Math.max(known, size - MOST_BYTES);
    const piece = await requestRange(this.path, from, size, signal);
    const isCut = from > 0 && from !== this.end;
    if (from !== this.end) this.reset();
    this.end = from + piece.byteLength;
    this.lines.hidden = false;
    const text = this.decoder.decode(piece, { stream: true });
    followEnd(this.lines, () => this.append(isCut ? text.slice(text.indexOf("\n") + 1) : text));
    show(this.about, `Up to the last ${MOST_LINES} lines of `, h("a", { href: this.path, download: true }, LOG), ` (${bytes(size)})`);
  }

  append(text) {
    const lines = (this.unfinished + text).split("\n");
    if (this.unfinished) this.lines.lastElementChild.remove();
    // A progress bar may never emit a newline.
    this.unfinished = lines.pop().slice(-MOST_BYTES);
    if (this.unfinished) lines.push(this.unfinished);
    this.lines.append(...lines.slice(-MOST_LINES).map((line) => h("span", {}, `${visible(line)}\n`)));
    while (this.lines.children.length > MOST_LINES) this.lines.firstElementChild.remove();
  }
}

/** A line as a terminal shows it, without colors: only the last state of a progress bar. */
function visible(line) {
  const states = line.replace(CONTROL_SEQUENCES, "").split("\r");
  return states.findLast((state) => state) ?? "";
}
