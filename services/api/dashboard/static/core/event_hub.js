// Follows the events of any number of jobs over one connection, which is all that a browser can
// spare: over HTTP/1.1 it opens six to a host, for all of its tabs together.

const MAX_JOBS = 100; // per request
const GATHER_MS = 20; // a page that follows several jobs asks for them one by one
const POLL_MS = 2000;
const POLL_LIMIT_MS = 30_000;
const SILENCE_MS = 60_000; // the gateway sends a comment every 15 s
const RETRY_MIN_MS = 500;
const RETRY_MAX_MS = 15_000;

/** A stream or request that was refused or interrupted; `status` is 0 without a response. */
class Interrupted extends Error {
  constructor(status) {
    super("interrupted");
    this.status = status;
  }
}

export class EventHub {
  /** A hub that streams, or polls where it `isPolling`; `onSignedOut` is called when it is refused. */
  constructor({ isPolling, onSignedOut }) {
    this.isPolling = isPolling;
    this.onSignedOut = onSignedOut;
    this.jobs = new Map(); // by id: the number of the last event received, and the followers
    this.running = new AbortController();
  }

  /**
   * Call `onEvent` with each event of a job after number `last`, and `onState` with "live",
   * "reconnecting", "waiting: too many live jobs" and "ended". Returns a function that ends it.
   */
  follow(jobId, last, onEvent, onState) {
    const job = this.jobs.get(jobId) ?? { last, followers: new Set() };
    const follower = { last, onEvent, onState };
    job.last = Math.min(job.last, last); // followers leave out what they have
    job.followers.add(follower);
    this.jobs.set(jobId, job);
    this.restart();
    return () => {
      if (!job.followers.delete(follower) || job.followers.size) return;
      if (this.jobs.get(jobId) === job) this.jobs.delete(jobId);
      this.restart();
    };
  }

  /** Connect again for the jobs followed now. */
  restart() {
    this.running.abort();
    this.running = new AbortController();
    const { signal } = this.running;
    setTimeout(() => { if (!signal.aborted) this.run(signal); }, GATHER_MS);
  }

  async run(signal) {
    let wait = RETRY_MIN_MS;
    const connected = () => { wait = RETRY_MIN_MS; };
    while (!signal.aborted && this.jobs.size) {
      const ids = [...this.jobs.keys()].slice(0, MAX_JOBS);
      for (const [id, job] of this.jobs) if (!ids.includes(id)) tell(job, "waiting: too many live jobs");
      try {
        await (this.isPolling ? this.poll(ids, connected, signal) : this.stream(ids, connected, signal));
      } catch (error) {
        if (signal.aborted) return;
        if (error.status === 401) this.onSignedOut();
        for (const id of ids) tell(this.jobs.get(id), "reconnecting");
        await pause(wait, signal);
        wait = Math.min(2 * wait, RETRY_MAX_MS);
      }
    }
  }

  address(ids, isStream) {
    const after = ids.map((id) => this.jobs.get(id).last).join(".");
    return `/v1/events?${new URLSearchParams([...ids.map((id) => ["job", id]), ["after", after], ...(isStream ? [["stream", "true"]] : [])])}`;
  }

  async stream(ids, connected, signal) {
    const silence = new AbortController();
    const ended = AbortSignal.any([signal, silence.signal]);
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
    };
    try {
      const response = await respond(this.address(ids, true), ended);
      connected();
      for (const id of ids) tell(this.jobs.get(id), "live");
      for await (const { name, data } of frames(response.body, heard)) {
        if (signal.aborted || data === "[DONE]") return;
        if (name === "end") this.end(JSON.parse(data).job_id);
        else this.take(JSON.parse(data));
      }
    } catch (error) {
      throw error instanceof Interrupted ? error : new Interrupted(0);
    } finally {
      clearTimeout(timer);
      silence.abort();
    }
    throw new Interrupted(0);
  }

  async poll(ids, connected, signal) {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(POLL_LIMIT_MS)]);
    const batch = await (await respond(this.address(ids, false), limit)).json();
    if (signal.aborted) return;
    connected();
    for (const id of ids) tell(this.jobs.get(id), "live");
    batch.data.forEach((event) => this.take(event));
    batch.ended.forEach((end) => this.end(end.job_id));
    if (!batch.has_more) await pause(POLL_MS, signal);
  }

  take(event) {
    const [, jobId, text] = /^ftevent-(.*)-(\d+)$/.exec(event.id);
    const number = Number(text);
    const job = this.jobs.get(jobId);
    if (!job) return;
    job.last = Math.max(job.last, number);
    for (const follower of job.followers) {
      if (number <= follower.last) continue;
      follower.last = number;
      follower.onEvent(event);
    }
  }

  end(jobId) {
    const job = this.jobs.get(jobId);
    this.jobs.delete(jobId);
    tell(job, "ended");
  }
}

function tell(job, state) {
  for (const follower of job?.followers ?? []) follower.onState(state);
}

async function respond(address, signal) {
  let response;
  try {
    response = await fetch(address, { signal, cache: "no-store" });
  } catch {
    throw new Interrupted(0);
  }
  if (!response.ok) throw new Interrupted(response.status);
  return response;
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener("abort", done);
  });
}

/** Yield the named data of server-sent events; `heard` is called for whatever arrives. */
async function* frames(stream, heard) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const complete = (rest + value).split("\n\n");
    rest = complete.pop();
    for (const frame of complete) {
      const fields = new Map(frame.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trimStart()]));
      if (fields.has("data")) yield { name: fields.get("event"), data: fields.get("data") };
    }
  }
}
