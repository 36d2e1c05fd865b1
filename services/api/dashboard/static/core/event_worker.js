// The shared worker: one connection for the events of all tabs of a browser, and the bound on the
// replies that they stream at the same time. A script of its own.

import { EventHub } from "./event_hub.js";
import { Slots } from "./slots.js";

const ports = new Set();
const hub = new EventHub({ isPolling: false, onSignedOut: () => ports.forEach((port) => port.postMessage({ type: "signedout" })) });
const replies = new Slots(3);

self.onconnect = ({ ports: [port] }) => {
  const ends = new Map(); // what ends each thing that the tab began
  ports.add(port);
  const begin = {
    follow: ({ id, jobId, last }) => hub.follow(jobId, last,
      (event) => port.postMessage({ type: "event", id, event }),
      (state) => port.postMessage({ type: "state", id, state })),
    reply: ({ id }) => replies.take(() => port.postMessage({ type: "begin", id })),
  };
  port.onmessage = ({ data }) => {
    if (data.type === "retry") hub.restart();
    else if (data.type === "end") {
      ends.get(data.id)?.();
      ends.delete(data.id);
    } else if (data.type === "leave") {
      ends.forEach((end) => end());
      ends.clear();
      ports.delete(port);
    } else ends.set(data.id, begin[data.type](data));
  };
};
