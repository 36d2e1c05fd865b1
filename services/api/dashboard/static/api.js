// Requests to the gateway: the REST routes that every client uses.

const TIME_LIMIT_SECONDS = 30;
const RETRY_FIRST = 500;
const RETRY_MOST = 15_000;

/**
 * An error answer: its message, its status and what is wrong with fields of the request, if
 * something is, each with the `param` and a `message`.
 */
export class ApiError extends Error {
  constructor(status, message, problems = []) {
    super(message);
    this.status = status;
    this.problems = problems;
  }
}

/** The answer of a route that is not an error; raises ApiError. `ended` is the caller's own signal. */
async function respond(path, init, ended) {
  let response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (ended?.aborted) throw error;
    throw new ApiError(0, "the gateway does not answer");
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => null);
  throw new ApiError(response.status, answer?.error?.message ?? `status ${response.status}`, problemsOf(answer?.error));
}

function problemsOf(error) {
  const { details, param, message } = error ?? {};
  if (details?.length) return details;
  return param ? [{ param, message }] : [];
}

/** A signal of the caller, if there is one, and a time limit. */
function within(seconds, signal) {
  const limit = AbortSignal.timeout(seconds * 1000);
  return signal ? AbortSignal.any([signal, limit]) : limit;
}

/** The JSON answer of a route; raises ApiError. */
export async function request(path, { method = "GET", body, headers = {}, signal, seconds = TIME_LIMIT_SECONDS } = {}) {
  const response = await respond(path, {
    method,
    headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: within(seconds, signal),
  }, signal);
  if (response.status === 204) return null;
  const answer = await response.json().catch(() => null);
  signal?.throwIfAborted();
  return answer;
}

/**
 * A function that calls `load` with a signal, before what it is given itself. The next call aborts
 * it: whichever answer comes last, that of the latest call is shown. Errors go to `onError`, but for
 * those of calls that were aborted.
 */
export function latestOf(load, onError, signal) {
  let current = new AbortController();
  return async (...given) => {
    current.abort();
    current = new AbortController();
    const mine = AbortSignal.any([signal, current.signal]);
    try {
      return await load(mine, ...given);
    } catch (error) {
      if (!mine.aborted) onError(error);
      return undefined;
    }
  };
}

/**
 * The bytes of a file between two positions, fewer where it ends before the second and none where it
 * is gone or ends before the first: it may be rewritten at any time. Raises ApiError.
 */
export async function requestRange(path, from, to, signal) {
  try {
    const response = await respond(path, {
      headers: { Range: `bytes=${from}-${to - 1}` },
      cache: "no-store", // Of a file that grew, a browser that keeps parts would ask for all.
      signal: within(TIME_LIMIT_SECONDS, signal),
    }, signal);
    return await response.arrayBuffer();
  } catch (error) {
    if (error instanceof ApiError && [404, 416].includes(error.status)) return new ArrayBuffer(0);
    throw error;
  }
}

/**
 * The pieces of an answer as the model writes them, the last one with the reason why it ends;
 * raises ApiError, also when the answer breaks off. There is no time limit: the first request of a
 * model waits for its engine, as long as the gateway lets it.
 */
export async function* streamChat(body, signal) {
  const response = await respond("/v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true }),
    signal,
  }, signal);
  for await (const data of events(response.body, signal)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(0, chunk.error.message);
    const { delta, finish_reason: reason } = chunk.choices[0] ?? {};
    if (delta) yield { text: delta.content ?? "", reason };
  }
  throw new ApiError(0, "the answer broke off");
}

/** The data of server-sent events, until the stream ends or breaks off. */
async function* events(stream, signal) {
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

/** A path with the parameters that have a value. */
export function withQuery(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** The latest events of a job, newest first. */
export async function latestEvents(jobId, limit, signal) {
  return (await request(`/v1/jobs/${jobId}/events?limit=${limit}`, { signal })).data;
}

/** The first events of a job, newest first: their ids number them from 1, and a page goes back from an id. */
export async function firstEvents(jobId, limit, signal) {
  const after = `ftevent-${jobId}-${limit + 1}`;
  return (await request(withQuery(`/v1/jobs/${jobId}/events`, { after, limit }), { signal })).data;
}

/**
 * Follow a job's events behind the one with id `after` (null: all) until it ends or `signal` is
 * aborted. A broken stream goes on behind the last event. `onState` is told "live",
 * "reconnecting" and "ended".
 */
export function followEvents(jobId, after, onEvent, onState, signal) {
  let last = after;
  let wait = RETRY_FIRST;
  let source;
  let timer;

  function open() {
    source = new EventSource(withQuery(`/v1/jobs/${jobId}/events`, { stream: true, after: last }));
    source.onopen = () => {
      wait = RETRY_FIRST;
      onState("live");
    };
    source.onmessage = (message) => {
      if (message.data === "[DONE]") {
        source.close();
        onState("ended");
        return;
      }
      last = message.lastEventId;
      onEvent(JSON.parse(message.data));
    };
    source.onerror = () => {
      source.close();
      onState("reconnecting");
      timer = setTimeout(open, wait);
      wait = Math.min(2 * wait, RETRY_MOST);
    };
  }

  signal.addEventListener("abort", () => {
    source.close();
    clearTimeout(timer);
  });
  open();
}

/**
 * Call `load` now and every `seconds` while the page is visible, until `signal` is aborted or
 * `load` returns false. Errors go to `onError`, and the calls go on.
 */
export function poll(seconds, load, onError, signal) {
  let timer;
  async function turn() {
    let goOn = true;
    try {
      if (!document.hidden) goOn = (await load()) !== false;
    } catch (error) {
      if (!signal.aborted) onError(error);
    }
    if (goOn && !signal.aborted) timer = setTimeout(turn, seconds * 1000);
  }
  signal.addEventListener("abort", () => clearTimeout(timer));
  turn();
}
