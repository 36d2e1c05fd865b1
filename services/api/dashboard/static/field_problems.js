// What an error answer says of fields of a request, at the fields of the form that made it.

import { h, setInvalid } from "./dom.js";
import { hintId } from "./schema_controls.js";

/**
 * Say at the fields that an error answer names what is wrong with each: at the closest one around it
 * where the form does not have it. Goes to the first of them. `{ retract, unplaced }`: a function
 * that removes the messages, and the problems that no field was found for. A problem has the
 * `param` of the answer and a `message`.
 */
export function pointOut(form, problems) {
  const found = problems.map((problem) => ({ ...spotOf(form, problem.param), problem }));
  const placed = found.filter(({ control }) => control);
  const retractions = placed.map(({ place, control, problem }) => describe(place, control, problem.message));
  placed[0]?.control.focus();
  return {
    retract: () => retractions.reverse().forEach((each) => each()), // a control may have several
    unplaced: found.filter(({ control }) => !control).map(({ problem }) => problem),
  };
}

/** The closest `place` with everything unfolded around it, and its `control`, if there is one. */
function spotOf(form, param) {
  const place = param ? closestPlace(form, param) : null;
  const control = place?.querySelector("input, select, textarea, summary, button");
  for (let fold = place?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  return { place, control };
}

/** Add a message to a place and its control; returns what removes it. */
function describe(place, control, message) {
  const said = h("small", { id: hintId(), class: "error" }, message);
  const before = control.getAttribute("aria-describedby");
  const canBeInvalid = control.matches("input, select, textarea");
  control.setAttribute("aria-describedby", [before, said.id].filter(Boolean).join(" "));
  if (canBeInvalid) setInvalid(control, true);
  place.append(said);
  return () => {
    said.remove();
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
    const found = places.findLast(([place]) => place === wanted); // of a union the chosen one
    if (found) return found[1];
  }
  return null;
}

/**
 * Where the value of an element is in the request that was read last: there items of a list are
 * counted from 0 and without those that were removed or left empty.
 */
function requestPlace(element) {
  const item = element.closest("[data-position]");
  if (!item) return element.dataset.place;
  const within = element.dataset.place.slice(item.dataset.item.length);
  return `${requestPlace(item.closest("[data-place]"))}.${item.dataset.position}${within}`;
}
