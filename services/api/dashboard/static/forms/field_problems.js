// Shows the field errors of a response at the fields of the form.

import { h, setInvalid } from "../core/dom.js";
import { hintId } from "./schema_controls.js";

/**
 * Show each problem, a `param` and a `message`, at its field, or at the closest enclosing one, and
 * focus the first. Returns `{ retract, unplaced }`: a function that removes the messages, and the
 * problems without a field.
 */
export function pointOut(form, problems) {
  const found = problems.map((problem) => ({ ...locate(form, problem.param), problem }));
  const placed = found.filter(({ control }) => control);
  const retractions = placed.map(({ place, control, problem }) => describe(place, control, problem.message));
  placed[0]?.control.focus();
  return {
    retract: () => retractions.reverse().forEach((each) => each()), // a control may have several
    unplaced: found.filter(({ control }) => !control).map(({ problem }) => problem),
  };
}

/** Expand and return the closest `place` and its `control`, if any. */
function locate(form, param) {
  const place = param ? closestPlace(form, param) : null;
  const control = place?.querySelector("input, select, textarea, summary, button");
  for (let fold = place?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  return { place, control };
}

/** Add a message to a place and its control; returns a function that removes it. */
function describe(place, control, message) {
  const note = h("small", { id: hintId(), class: "error" }, message);
  const before = control.getAttribute("aria-describedby");
  const canBeInvalid = control.matches("input, select, textarea");
  control.setAttribute("aria-describedby", [before, note.id].filter(Boolean).join(" "));
  if (canBeInvalid) setInvalid(control, true);
  place.append(note);
  return () => {
    note.remove();
    if (before) control.setAttribute("aria-describedby", before);
    else control.removeAttribute("aria-describedby");
    if (canBeInvalid) setInvalid(control, false);
  };
}

/** The gateway names items of lists as in `tools[0].url` and as in `benchmarks.0.file`. */
function closestPlace(form, param) {
  const places = [...form.querySelectorAll("[data-place]")].map((each) => [requestPlace(each), each]);
  const names = param.replaceAll(/\[(\d+)\]/g, ".$1").split(".");
  for (let length = names.length; length > 0; length -= 1) {
    const wanted = names.slice(0, length).join(".");
    const found = places.findLast(([place]) => place === wanted); // in a union, the selected variant
    if (found) return found[1];
  }
  return null;
}

/**
 * The path of an element in the last request built: list items are counted from 0, skipping removed
 * and empty ones.
 */
function requestPlace(element) {
  const item = element.closest("[data-position]");
  if (!item) return element.dataset.place;
  const within = element.dataset.place.slice(item.dataset.item.length);
  return `${requestPlace(item.closest("[data-place]"))}.${item.dataset.position}${within}`;
}
