// Client of the gateway's REST API.

import { parseExactly } from "./exact_json.js";

const TIME_LIMIT_SECONDS = 30;
const PAGE = 100;
const RETRY_DELAYS_MS = [250, 750, 2000];

/**
 * An error response, with its status (0: none), its code, and the invalid fields, each a `param` and
 * a `message`.
 */
export class ApiError extends Error {
  constructor(status, message, problems = [], code = null) {
    super(message);
    this.status = status;
    this.problems = problems;
    this.code = code;
  }
}

/** The event of `window` when a request was refused because this browser is no longer signed in. */
export const SIGNED_OUT = "signedout";

/** Repeat the loading of something with a growing delay while the gateway does not answer. */
async function repeated(load, signal, ended) {
  for (const delay of RETRY_DELAYS_MS) {
    try {
      return await load();
    } catch (error) {
      if (ended?.aborted || signal.aborted || error.status !== 0) throw error;
    }
    await new Promise((resolve) => { setTimeout(resolve, delay); });
  }
  return load();
}

/** Fetch a successful response; throws ApiError. `ended` is the caller's own signal. */
async function respond(path, init, ended) {
  const asked = new Request(path, init); // throws where no such request can be sent
  let response;
  try {
    response = await fetch(asked);
  } catch (error) {
    if (ended?.aborted) throw error;
    throw new ApiError(0, "the gateway is not responding");
  }
  if (response.ok) return response;
  if (response.status === 401 && !init.headers?.Authorization) {
    window.dispatchEvent(new Event(SIGNED_OUT));
    throw new ApiError(401, "you are signed out");
  }
  const answer = await response.json().catch(() => null);
  throw new ApiError(response.status, answer?.error?.message ?? `status ${response.status}`, problemsOf(answer?.error), answer?.error?.code);
}

function problemsOf(error) {
  const { details, param, message } = error ?? {};
  if (details?.length) return details;
  return param ? [{ param, message }] : [];
}

/** The caller's signal, if any, combined with a timeout. */
function withTimeout(seconds, signal) {
  const limit = AbortSignal.timeout(seconds * 1000);
  return signal ? AbortSignal.any([signal, limit]) : limit;
}

/**
 * Fetch a JSON response, several times if the gateway does not answer; throws ApiError. The gateway
 * gives a repeated POST the first response, which the key in its header tells it apart by. An exact
 * response keeps the digits of its numbers, which are then only to be shown or sent.
 */
export function request(path, { method = "GET", body, headers = {}, signal, seconds = TIME_LIMIT_SECONDS, isRepeatable = method !== "DELETE", isExact = false } = {}) {
  const init = {
    method,
    headers: {
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      ...(method === "POST" && isRepeatable ? { "Idempotency-Key": randomKey() } : {}),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: withTimeout(seconds, signal),
  };
  const load = () => requestOnce(path, init, signal, isExact);
  return isRepeatable ? repeated(load, init.signal, signal) : load();
}

/** A name that nothing else has; `crypto.randomUUID` needs HTTPS or a loopback address. */
export function randomKey() {
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}

async function requestOnce(path, init, signal, isExact) {
  const response = await respond(path, init, signal);
  if (response.status === 204) return null;
  const answer = await (isExact ? response.text().then(parseExactly) : response.json()).catch(() => undefined);
  signal?.throwIfAborted();
  if (answer === undefined) throw new ApiError(0, "the response was interrupted");
  return answer;
}

/**
 * Wrap `load(signal, ...args)` so that each call aborts the previous one: only the latest response
 * takes effect. Errors go to `onError`, except those of aborted calls.
 */
export function latestOf(load, onError, signal) {
  let current = new AbortController();
  return async (...args) => {
    current.abort();
    current = new AbortController();
    const mine = AbortSignal.any([signal, current.signal]);
    try {
      return await load(mine, ...args);
    } catch (error) {
      if (!mine.aborted) onError(error);
      return undefined;
    }
  };
}

/**
 * Fetch bytes [from, to) of a file that may be rewritten at any time: fewer if it ends earlier, none
 * if it is gone or ends before `from`. Throws ApiError.
 */
export async function requestRange(path, from, to, signal) {
  const init = {
    headers: { Range: `bytes=${from}-${to - 1}` },
    cache: "no-store", // With cached parts of a file that has grown, browsers request all of it.
    signal: withTimeout(TIME_LIMIT_SECONDS, signal),
  };
  try {
    return await repeated(async () => (await respond(path, init, signal)).arrayBuffer(), init.signal, signal);
  } catch (error) {
    if (error instanceof ApiError && [404, 416].includes(error.status)) return new ArrayBuffer(0);
    throw error;
  }
}

/**
 * Stream the chunks of a completion, the last with its finish reason; throws ApiError, also when the
 * stream is interrupted. No timeout: a model's first request waits for its engine to start, as long
 * as the gateway allows.
 */
export async function* streamChat(body, signal) {
  const response = await respond("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true }),
    signal,
  }, signal);
  for await (const data of serverSentData(response.body, signal)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(0, chunk.error.message);
    const { delta, finish_reason: reason } = chunk.choices[0] ?? {};
    if (delta) yield { text: delta.content ?? "", reason };
  }
  throw new ApiError(0, "the response was interrupted");
}

/** Yield the data of server-sent events until the stream ends or is interrupted. */
async function* serverSentData(stream, signal) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (signal.aborted) throw error;
      return;
    }
    if (piece.done) return;
    const complete = (rest + piece.value).split("\n\n");
    rest = complete.pop();
    for (const event of complete) yield event.replace(/^data: ?/, "");
  }
}

/** Add the non-empty parameters to a path. */
export function withQuery(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** The first `most` or a few more elements of a list, page by page, and whether there are others. */
export async function elementsOf(path, parameters, most, signal) {
  const data = [];
  for (let after; ;) {
    const page = await request(withQuery(path, { ...parameters, after, limit: PAGE }), { signal });
    data.push(...page.data);
    if (!page.has_more || data.length >= most) return { data, has_more: page.has_more };
    after = page.last_id;
  }
}

/** Fetch the latest events of a job, newest first. */
export async function latestEvents(jobId, limit, signal) {
  return (await request(`/v1/jobs/${jobId}/events?limit=${limit}`, { signal })).data;
}

/** Fetch the first events of a job, newest first: ids are numbered from 1, and pages go backward from an id. */
export async function firstEvents(jobId, limit, signal) {
  const after = `ftevent-${jobId}-${limit + 1}`;
  return (await request(withQuery(`/v1/jobs/${jobId}/events`, { after, limit }), { signal })).data;
}

// The share of the time that a page spends loading is at most 1 / (1 + this), whatever the load.
const IDLE_RATIO = 3;

/**
 * Call `load` now and about every `seconds` while the page is visible, until `signal` is aborted or
 * `load` returns false. Errors go to `onError`, and polling continues.
 */
export function poll(seconds, load, onError, signal) {
  let timer;
  async function tick() {
    let isActive = true;
    const begun = performance.now();
    try {
      if (!document.hidden) isActive = (await load()) !== false;
    } catch (error) {
      if (!signal.aborted) onError(error);
    }
    if (isActive && !signal.aborted) timer = setTimeout(tick, Math.max(seconds * 1000, IDLE_RATIO * (performance.now() - begun)));
  }
  signal.addEventListener("abort", () => clearTimeout(timer));
  tick();
}
