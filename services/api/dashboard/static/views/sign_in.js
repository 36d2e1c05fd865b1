// Sign-in: the key is sent once and exchanged for an HttpOnly cookie.

import { request } from "../core/api.js";
import { field, h } from "../core/dom.js";

export function signInView(place, signedIn) {
  const key = h("input", { type: "password", name: "key", autocomplete: "current-password", required: true });
  const problem = h("p", { class: "error", role: "alert" });

  async function submit(event) {
    event.preventDefault();
    problem.textContent = "";
    const [strange] = key.value.trim().match(/[^\u0000-\u00ff]/u) ?? [];
    if (strange) {
      problem.textContent = `A key cannot have the character ${JSON.stringify(strange)}: copy it again.`;
      return;
    }
    try {
      await request("/ui/session", { method: "POST", headers: { Authorization: `Bearer ${key.value.trim()}` } });
    } catch (error) {
      problem.textContent = error.message;
      return;
    }
    signedIn();
  }

  place.replaceChildren(
    h("h1", {}, "Sign in"),
    h("form", { class: "row", onsubmit: submit }, field("API key", key), h("button", {}, "Sign in")),
    problem,
    h("p", { class: "quiet" }, "Run temper keys new to create a key."),
  );
  key.focus();
}
