// Client-side routing and sign-in. Every view has its own URL.

import { request, SIGNED_OUT, withQuery } from "./core/api.js";
import { h } from "./core/dom.js";
import { oneDirection } from "./core/format.js";
import { retryLive } from "./core/live.js";
import { savedViews } from "./core/saved_views.js";
import { alertsView } from "./views/alerts.js";
import { campaignLoopView } from "./views/campaign_loop.js";
import { campaignView, campaignsView } from "./views/campaigns.js";
import { chatView } from "./views/chat.js";
import { cloneView } from "./views/jobs/clone.js";
import { compareView } from "./views/jobs/compare.js";
import { dataView } from "./views/data/data.js";
import { evaluationsView } from "./views/evaluations.js";
import { fileView } from "./views/data/file.js";
import { groupView } from "./views/jobs/group.js";
import { jobView } from "./views/jobs/job.js";
import { jobsView } from "./views/jobs/jobs.js";
import { lineageView } from "./views/lineage.js";
import { modelView } from "./views/model.js";
import { modelsView } from "./views/models.js";
import { passageView } from "./views/passage.js";
import { resultsView } from "./views/jobs/results.js";
import { searchView } from "./views/search.js";
import { signInView } from "./views/sign_in.js";
import { startView } from "./views/start.js";
import { sweepView } from "./views/jobs/sweep.js";
import { trajectoriesView } from "./views/jobs/trajectories.js";
import { trajectoryView } from "./views/jobs/trajectory.js";
import { usageView } from "./views/usage.js";
import { workersView } from "./views/workers.js";

const VIEWS = [
  [/^\/ui\/?$/, jobsView],
  [/^\/ui\/jobs\/([\w-]+)$/, jobView],
  [/^\/ui\/jobs\/([\w-]+)\/trajectories$/, trajectoriesView],
  [/^\/ui\/jobs\/([\w-]+)\/trajectories\/([\w:-]+)$/, trajectoryView],
  [/^\/ui\/jobs\/([\w-]+)\/results$/, resultsView],
  [/^\/ui\/jobs\/([\w-]+)\/clone$/, cloneView],
  [/^\/ui\/jobs\/([\w-]+)\/sweep$/, sweepView],
  [/^\/ui\/group$/, groupView],
  [/^\/ui\/compare$/, compareView],
  [/^\/ui\/evaluations$/, evaluationsView],
  [/^\/ui\/campaigns$/, campaignsView],
  [/^\/ui\/campaigns\/([\w-]+)$/, campaignView],
  [/^\/ui\/campaigns\/([\w-]+)\/loops\/(\d{1,4})$/, campaignLoopView],
  [/^\/ui\/data$/, dataView],
  [/^\/ui\/data\/([\w-]+)$/, fileView],
  [/^\/ui\/models$/, modelsView],
  [/^\/ui\/model$/, modelView],
  [/^\/ui\/lineage$/, lineageView],
  [/^\/ui\/passage$/, passageView],
  [/^\/ui\/chat$/, chatView],
  [/^\/ui\/start\/(fine-tune|evaluation|rollout|training|batch)$/, startView],
  [/^\/ui\/alerts$/, alertsView],
  [/^\/ui\/search$/, searchView],
  [/^\/ui\/usage$/, usageView],
  [/^\/ui\/workers$/, workersView],
];

const RETRY_MIN_MS = 1000;
const RETRY_MAX_MS = 15_000;

const main = document.getElementById("main");
const signOut = document.getElementById("sign-out");
/** The view shown: its container, its end, and whether it was built. */
let view = { place: main, lifetime: new AbortController(), isBuilt: false };
let signIn = null; // the container of the sign-in form
let shown = ""; // the address of the view, without what jumps within the page

/** Render the view of the current URL, with its own container and a signal aborted when it is left. */
async function route({ focus = false } = {}) {
  view.lifetime.abort();
  signIn = null;
  shown = addressHere();
  const mine = { place: h("div", { class: "view" }), lifetime: new AbortController(), isBuilt: false };
  const { signal } = mine.lifetime;
  view = mine;
  main.replaceChildren(mine.place);
  new MutationObserver(nameView).observe(mine.place, { childList: true });
  markCurrentLink();
  try {
    const session = await request("/ui/session", { signal });
    signOut.hidden = !(session.keys_required && session.signed_in);
    if (!session.signed_in) {
      askForKey();
      return;
    }
    await renderView(mine.place, signal);
    mine.isBuilt = true;
  } catch (error) {
    if (signal.aborted || error.status === 401) return;
    mine.place.append(h("p", { class: "error", role: "alert" }, error.message), retryButton());
    if (error.status === 0) recover(signal);
  }
  if (focus && signIn === null) main.focus();
}

/** Render the view again by itself once the gateway responds. */
async function recover(signal) {
  for (let delay = RETRY_MIN_MS; !signal.aborted; delay = Math.min(2 * delay, RETRY_MAX_MS)) {
    await new Promise((resolve) => { setTimeout(resolve, delay); });
    const isBack = await request("/ui/session", { signal }).then(() => true, () => false);
    if (isBack && !signal.aborted) {
      route();
      return;
    }
  }
}

/** Name the page after its view, as soon as that has a heading and unless it is hidden. */
function nameView() {
  const name = view.place.hidden ? "Sign in" : view.place.querySelector("h1")?.textContent;
  document.title = name ? `${oneDirection(name)} · Temper` : "Temper";
}

/** Put the sign-in form in front of the view, which is shown again afterward as it was left. */
function askForKey() {
  if (signIn !== null) return;
  signIn = h("div");
  view.place.hidden = true;
  signOut.hidden = true;
  main.append(signIn);
  nameView();
  signInView(signIn, () => {
    if (!view.isBuilt) {
      route();
      return;
    }
    signIn.remove();
    signIn = null;
    view.place.hidden = false;
    signOut.hidden = false;
    nameView();
    retryLive();
    main.focus();
  });
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
  shown = addressHere();
}

function addressHere() {
  return location.pathname + location.search;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (event.defaultPrevented || !link || !isPlain || link.hash || link.origin !== location.origin || !/^\/ui(\/|$)/.test(link.pathname)) return;
  event.preventDefault();
  go(link.href);
});
signOut.addEventListener("click", async () => {
  await request("/ui/session", { method: "DELETE" });
  route({ focus: true });
});
document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = new FormData(event.target).get("text").trim();
  if (text) go(withQuery("/ui/search", { text }));
});
savedViews(document.getElementById("saved-views"));
window.addEventListener(SIGNED_OUT, askForKey);
window.addEventListener("popstate", () => { if (addressHere() !== shown) route(); });
window.addEventListener("pageshow", (event) => { if (event.persisted) route(); });
route();
