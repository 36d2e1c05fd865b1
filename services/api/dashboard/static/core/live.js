// What the tabs of a browser share: the stream of events, and the connections for streamed replies.
// They meet in a shared worker; where there is none, each tab polls.

import { SIGNED_OUT } from "./api.js";
import { EventHub } from "./event_hub.js";
import { Slots } from "./slots.js";

const MAX_REPLIES = 2; // of one tab that knows nothing of the others

const signedOut = () => window.dispatchEvent(new Event(SIGNED_OUT));

/** The same work as the shared worker's, for this tab alone. */
class Alone {
  constructor() {
    this.hub = new EventHub({ isPolling: true, onSignedOut: signedOut });
    this.replies = new Slots(MAX_REPLIES);
  }

  follow({ jobId, last }, { onEvent, onState }) {
    return this.hub.follow(jobId, last, onEvent, onState);
  }

  reply(_, { onBegin }) {
    return this.replies.take(onBegin);
  }

  retry() {
    this.hub.restart();
  }
}

/** The shared worker's side in this tab. */
class Shared {
  constructor(address, onFailure) {
    this.told = new Map();
    this.next = 0;
    const worker = new SharedWorker(address, { name: address });
    worker.onerror = onFailure;
    this.port = worker.port;
    this.port.onmessage = ({ data }) => this.hear(data);
    window.addEventListener("pagehide", () => this.port.postMessage({ type: "leave" }));
  }

  hear({ type, id, event, state }) {
    const told = this.told.get(id);
    if (type === "signedout") signedOut();
    else if (type === "event") told?.onEvent(event);
    else if (type === "state") told?.onState(state);
    else told?.onBegin();
  }

  begin(type, asked, told) {
    const id = this.next;
    this.next += 1;
    this.told.set(id, told);
    this.port.postMessage({ type, id, ...asked });
    return () => {
      if (this.told.delete(id)) this.port.postMessage({ type: "end", id });
    };
  }

  follow(asked, told) {
    return this.begin("follow", asked, told);
  }

  reply(asked, told) {
    return this.begin("reply", asked, told);
  }

  retry() {
    this.port.postMessage({ type: "retry" });
  }
}

const begun = new Set(); // what goes on, to begin it again where the worker fails
let live = start();

function start() {
  const address = document.documentElement.dataset.worker;
  if (!window.SharedWorker || !address) return new Alone();
  try {
    return new Shared(address, goOnAlone);
  } catch {
    return new Alone();
  }
}

/** Begin everything again in this tab, as the worker's script cannot be loaded. */
function goOnAlone() {
  if (live instanceof Alone) return;
  live = new Alone();
  for (const one of begun) one.end = live[one.type](one.asked, one.told);
}

/** Begin something; it ends with `signal`, or by the function returned. */
function begin(type, asked, told, signal) {
  const one = { type, asked, told, end: live[type](asked, told) };
  begun.add(one);
  const end = () => {
    if (begun.delete(one)) one.end();
  };
  signal.addEventListener("abort", end);
  return end;
}

/**
 * Call `onEvent` with a job's events after the one numbered `last` (0: all) until the job ends or
 * `signal` is aborted. `onState` gets "live", "reconnecting", "ended" or why it waits.
 */
export function followEvents(jobId, last, onEvent, onState, signal) {
  begin("follow", { jobId, last }, { onEvent, onState }, signal);
}

/** Wait for one of the connections for streamed replies; returns a function that gives it back. */
export async function replySlot(signal) {
  let end;
  await new Promise((resolve, reject) => {
    end = begin("reply", {}, { onBegin: resolve }, signal);
    signal.addEventListener("abort", () => reject(signal.reason));
  });
  return end;
}

/** Connect again at once, as after signing in. */
export function retryLive() {
  live.retry();
}
