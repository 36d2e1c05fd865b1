// Uploads: in one request, or in parts for large files.

import { ApiError, request, SIGNED_OUT } from "../core/api.js";

const PART_BYTES = 32 * 2 ** 20;
const TRIES = 3;
const COMPLETE_SECONDS = 600; // the gateway copies the parts into one file

/**
 * Upload a file and return the gateway's file object. `progress` is called with the bytes sent so
 * far; `signal` cancels the upload. Throws ApiError.
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
  const created = await request("/v1/uploads", { method: "POST", body, signal });
  try {
    const ids = [];
    for (let offset = 0; offset < file.size; offset += PART_BYTES) {
      ids.push(await sendPart(created.id, file.slice(offset, offset + PART_BYTES), (sent) => progress(offset + sent), signal));
    }
    return (await request(`/v1/uploads/${created.id}/complete`, { method: "POST", body: { part_ids: ids }, signal, seconds: COMPLETE_SECONDS, isRepeatable: false })).file;
  } catch (error) {
    // Best effort: the gateway removes leftover parts after an hour.
    request(`/v1/uploads/${created.id}/cancel`, { method: "POST" }).catch(() => {});
    throw error;
  }
}

/** Send a part, retrying connection errors; returns its id. */
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

/** Post a form without a timeout; unlike fetch, XMLHttpRequest reports upload progress. */
function send(path, form, progress, signal) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    sending.open("POST", path);
    sending.responseType = "json";
    sending.upload.onprogress = (event) => progress(event.loaded);
    sending.onload = () => {
      const { status, response } = sending;
      if (status >= 200 && status < 300 && response) resolve(response);
      else if (status === 401) {
        window.dispatchEvent(new Event(SIGNED_OUT));
        reject(new ApiError(401, "you are signed out"));
      } else reject(new ApiError(status, response?.error?.message ?? `status ${status}`));
    };
    sending.onerror = () => reject(new ApiError(0, "the gateway is not responding"));
    sending.onabort = () => reject(signal.reason);
    const abort = () => sending.abort();
    signal.addEventListener("abort", abort);
    sending.onloadend = () => signal.removeEventListener("abort", abort);
    if (signal.aborted) reject(signal.reason);
    else sending.send(form);
  });
}
