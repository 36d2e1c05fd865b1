// Sending a file to the gateway: in one request, or in parts when it is large.

import { ApiError, request } from "./api.js";

const PART_BYTES = 32 * 2 ** 20;
const TRIES = 3;
const COMPLETE_SECONDS = 600; // the gateway copies the parts into one file

/**
 * Upload a file and return it as the gateway shows it. `progress` is told the bytes sent so far;
 * `signal` cancels, and what was sent is forgotten. Raises ApiError.
 */
export async function upload(file, purpose, progress, signal) {
  if (file.size > PART_BYTES) return uploadInParts(file, purpose, progress, signal);
  const form = new FormData();
  form.append("purpose", purpose);
  form.append("file", file, file.name);
  return send("/v1/files", form, progress, signal);
}

async function uploadInParts(file, purpose, progress, signal) {
  const body = { bytes: file.size, filename: file.name, mime_type: "application/octet-stream", purpose };
  const begun = await request("/v1/uploads", { method: "POST", body, signal });
  try {
    const ids = [];
    for (let offset = 0; offset < file.size; offset += PART_BYTES) {
      ids.push(await sendPart(begun.id, file.slice(offset, offset + PART_BYTES), (sent) => progress(offset + sent), signal));
    }
    return (await request(`/v1/uploads/${begun.id}/complete`, { method: "POST", body: { part_ids: ids }, signal, seconds: COMPLETE_SECONDS })).file;
  } catch (error) {
    // Nobody waits for the answer: parts that stay are removed after an hour.
    request(`/v1/uploads/${begun.id}/cancel`, { method: "POST" }).catch(() => {});
    throw error;
  }
}

/** The id of a part, sent again when the connection breaks. */
async function sendPart(id, content, progress, signal) {
  for (let tries = 1; ; tries += 1) {
    const form = new FormData();
    form.append("data", content);
    try {
      return (await send(`/v1/uploads/${id}/parts`, form, progress, signal)).id;
    } catch (error) {
      if (signal.aborted || error.status !== 0 || tries === TRIES) throw error;
    }
  }
}

/** Post a form; unlike fetch, XMLHttpRequest tells how much was sent. There is no time limit. */
function send(path, form, progress, signal) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    sending.open("POST", path);
    sending.responseType = "json";
    sending.upload.onprogress = (event) => progress(event.loaded);
    sending.onload = () => {
      const { status, response } = sending;
      if (status >= 200 && status < 300 && response) resolve(response);
      else reject(new ApiError(status, response?.error?.message ?? `status ${status}`));
    };
    sending.onerror = () => reject(new ApiError(0, "the gateway does not answer"));
    sending.onabort = () => reject(signal.reason);
    const abort = () => sending.abort();
    signal.addEventListener("abort", abort);
    sending.onloadend = () => signal.removeEventListener("abort", abort);
    if (signal.aborted) reject(signal.reason);
    else sending.send(form);
  });
}
