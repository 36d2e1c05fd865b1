// A report of a view as one file that stands alone: its texts, tables and plots, without scripts.

import { h } from "../core/dom.js";
import { download } from "../charts/plot_export.js";

const LEFT_OUT = "button, input, select, textarea, form, .same, .save, .sparkline + .sparkline, [hidden], [role=group], .u-legend";
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/** A button that saves a report; `read` returns its title, its `sections` and the plots' SVG texts. */
export function reportButton(read) {
  return h("button", { type: "button", onclick: () => {
    const { title, sections, pictures } = read();
    download(`${title.replace(/[^\w.-]+/g, "_").slice(0, 80)}.html`, new Blob([reportOf(title, sections, pictures)], { type: "text/html" }));
  } }, "Save report");
}

/** The report as HTML: serialized elements, in which all text of others is escaped. */
function reportOf(title, sections, pictures) {
  const parts = sections.map(standing).filter((part) => part.textContent.trim());
  const plots = pictures.map((each) => each.replace(/^<\?xml.*?\?>/, ""));
  const heading = h("title", {}, title).outerHTML;
  const about = h("p", { class: "quiet" }, `Saved on ${new Date().toLocaleString()} from `, h("a", { href: location.href }, location.href), ".").outerHTML;
  const style = document.querySelector("style").textContent;
  const curves = plots.length ? `<section><h2>Curves</h2><div class="charts">${plots.map((each) => `<figure class="chart">${each}</figure>`).join("")}</div></section>` : "";
  return `<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}">`
    + `<meta name="viewport" content="width=device-width, initial-scale=1">${heading}<style>${style}.summary { position: static } .chart svg { width: 100%; height: auto }</style></head>`
    + `<body><main>${parts[0]?.outerHTML ?? ""}${about}${curves}${parts.slice(1).map((part) => part.outerHTML).join("")}</main></body></html>\n`;
}

/** A copy of an element without controls, all of it unfolded, with absolute links. */
function standing(element) {
  const copy = element.cloneNode(true);
  for (const each of copy.querySelectorAll(LEFT_OUT)) each.remove();
  for (const each of copy.querySelectorAll("details")) each.open = true;
  for (const each of copy.querySelectorAll("a[href]")) each.setAttribute("href", new URL(each.getAttribute("href"), location.origin).href);
  return copy;
}
