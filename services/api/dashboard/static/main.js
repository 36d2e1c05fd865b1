// Client-side routing and sign-in. Every view has its own URL.

import { ApiError, request } from "./api.js";
import { h } from "./dom.js";
import { campaignLoopView } from "./views/campaign_loop.js";
import { campaignView, campaignsView } from "./views/campaigns.js";
import { chatView } from "./views/chat.js";
import { cloneView } from "./views/clone.js";
import { compareView } from "./views/compare.js";
import { dataView } from "./views/data.js";
import { evaluationsView } from "./views/evaluations.js";
import { fileView } from "./views/file.js";
import { jobView } from "./views/job.js";
import { jobsView } from "./views/jobs.js";
import { lineageView } from "./views/lineage.js";
import { modelsView } from "./views/models.js";
import { passageView } from "./views/passage.js";
import { resultsView } from "./views/results.js";
import { signInView } from "./views/sign_in.js";
import { startView } from "./views/start.js";
import { trajectoriesView } from "./views/trajectories.js";
import { trajectoryView } from "./views/trajectory.js";
import { workersView } from "./views/workers.js";

const VIEWS = [
  [/^\/ui\/?$/, jobsView],
  [/^\/ui\/jobs\/([\w-]+)$/, jobView],
  [/^\/ui\/jobs\/([\w-]+)\/trajectories$/, trajectoriesView],
  [/^\/ui\/jobs\/([\w-]+)\/trajectories\/([\w:-]+)$/, trajectoryView],
  [/^\/ui\/jobs\/([\w-]+)\/results$/, resultsView],
  [/^\/ui\/jobs\/([\w-]+)\/clone$/, cloneView],
  [/^\/ui\/compare$/, compareView],
  [/^\/ui\/evaluations$/, evaluationsView],
  [/^\/ui\/campaigns$/, campaignsView],
  [/^\/ui\/campaigns\/([\w-]+)$/, campaignView],
  [/^\/ui\/campaigns\/([\w-]+)\/loops\/(\d{1,4})$/, campaignLoopView],
  [/^\/ui\/data$/, dataView],
  [/^\/ui\/data\/([\w-]+)$/, fileView],
  [/^\/ui\/models$/, modelsView],
  [/^\/ui\/lineage$/, lineageView],
  [/^\/ui\/passage$/, passageView],
  [/^\/ui\/chat$/, chatView],
  [/^\/ui\/start\/(fine-tune|evaluation|rollout|training|batch)$/, startView],
  [/^\/ui\/workers$/, workersView],
];

const main = document.getElementById("main");
const signOut = document.getElementById("sign-out");
let viewLifetime = new AbortController();

/** Render the view of the current URL, with its own container and a signal aborted when it is left. */
async function route({ focus = false } = {}) {
  viewLifetime.abort();
  viewLifetime = new AbortController();
  const { signal } = viewLifetime;
  const place = h("div");
  main.replaceChildren(place);
  markCurrentLink();
  try {
    const session = await request("/ui/session", { signal });
    signOut.hidden = !(session.keys_required && session.signed_in);
    if (!session.signed_in) {
      signInView(place, () => route());
      return;
    }
    await renderView(place, signal);
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof ApiError && error.status === 401) signInView(place, () => route());
    else place.append(h("p", { class: "error", role: "alert" }, error.message), retryButton());
  }
  document.title = `${main.querySelector("h1")?.textContent ?? "Temper"} · Temper`;
  if (focus) main.focus();
}

function renderView(place, signal) {
  for (const [pattern, build] of VIEWS) {
    const match = pattern.exec(location.pathname);
    if (match) return build({ place, signal, query: new URLSearchParams(location.search), go, setQuery }, ...match.slice(1));
  }
  place.append(h("h1", {}, "Not found"), h("p", {}, `There is no page at ${location.pathname}.`));
  return undefined;
}

function retryButton() {
  return h("button", { type: "button", onclick: () => route() }, "Try again");
}

function markCurrentLink() {
  for (const link of document.querySelectorAll("nav a")) {
    const isCurrent = link.pathname === location.pathname;
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Navigate to another view. */
function go(address) {
  history.pushState(null, "", address);
  route({ focus: true });
}

/** Merge a view's state into the URL's query without navigating. */
function setQuery(parameters) {
  const kept = { ...Object.fromEntries(new URLSearchParams(location.search)), ...parameters };
  const given = Object.entries(kept).filter(([, value]) => value !== "" && value !== null);
  const query = new URLSearchParams(given).toString();
  history.replaceState(null, "", query ? `${location.pathname}?${query}` : location.pathname);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !isPlain || link.hash || link.origin !== location.origin || !/^\/ui(\/|$)/.test(link.pathname)) return;
  event.preventDefault();
  go(link.href);
});
signOut.addEventListener("click", async () => {
  await request("/ui/session", { method: "DELETE" });
  route({ focus: true });
});
window.addEventListener("popstate", () => route());
route();
