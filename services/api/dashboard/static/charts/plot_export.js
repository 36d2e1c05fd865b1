// A plot as a picture or a table: PNG, SVG and CSV.

import { colorOf } from "../core/colors.js";
import { h } from "../core/dom.js";
import { oneDirection } from "../core/format.js";

const WIDTH = 800;
const HEIGHT = 320;
const MARGIN = 50;

/** Buttons that save a plot; `read` returns its uPlot, `columns`, the names of its data, and the `data` of a table. */
export function saveButtons(name, read) {
  const save = (extension, build) => h("button", { type: "button", "aria-label": `Save ${name} as ${extension}`, onclick: async () => {
    const { chart, columns, data } = read();
    download(`${name.replace(/[^\w.-]+/g, "_")}.${extension.toLowerCase()}`, await build(chart, columns, name, data));
  } }, extension);
  return h("details", { class: "save" }, h("summary", { "aria-label": `Save ${name}` }, "Save"),
    h("div", { class: "row" }, save("PNG", png), save("SVG", svg), save("CSV", csv)));
}

/** Have the browser save a file. */
export function download(name, blob) {
  const address = URL.createObjectURL(blob);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address));
}

function png(chart) {
  const { width, height } = chart.ctx.canvas;
  const canvas = h("canvas", { width, height });
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, width, height);
  context.drawImage(chart.ctx.canvas, 0, 0);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
}

function csv(chart, columns, name, data = chart.data) {
  const rows = data[0].map((_, at) => data.map((values) => values[at] ?? "").join(","));
  return new Blob([[columns.map(quoted).join(","), ...rows, ""].join("\n")], { type: "text/csv" });
}

/** A text as a cell (RFC 4180); one that spreadsheets take for a formula is marked as text. */
function quoted(text) {
  const shown = /^[=+\-@\t]/.test(text) ? `'${text}` : text;
  return `"${shown.replaceAll('"', '""')}"`;
}

function svg(chart, columns, name) {
  return new Blob([pictureOf(chart, columns, name)], { type: "image/svg+xml" });
}

/** The lines of a plot with the ends of its axes, as the text of a picture that stands alone. */
export function pictureOf(chart, columns, name) {
  const { x, y } = chart.scales;
  const down = (value) => (y.distr === 3 ? Math.log10(value) : value);
  const [low, high] = [down(y.min), down(y.max)];
  const across = (value) => MARGIN + ((value - x.min) / (x.max - x.min || 1)) * (WIDTH - 2 * MARGIN);
  const height = (value) => HEIGHT - MARGIN - ((down(value) - low) / (high - low || 1)) * (HEIGHT - 2 * MARGIN);
  const text = (left, top, anchor, content, color = colorOf("--quiet")) => `<text x="${left}" y="${top}" text-anchor="${anchor}" fill="${color}">${escaped(content)}</text>`;
  const lines = chart.data.slice(1).map((values, index) => {
    const color = chart.series[index + 1]._stroke ?? colorOf("--run-1");
    const runs = [[]];
    chart.data[0].forEach((place, at) => {
      if (values[at] === null) runs.push([]);
      else if (values[at] !== undefined && place >= x.min && place <= x.max) runs.at(-1).push(`${across(place).toFixed(1)},${height(values[at]).toFixed(1)}`);
    });
    const drawn = runs.filter((points) => points.length).map((points) => `<polyline points="${points.join(" ")}" fill="none" stroke="${color}" stroke-width="1.5"/>`);
    return drawn.join("") + text(MARGIN + 4, MARGIN + 14 * (index + 1), "start", columns[index + 1], color);
  });
  const axes = `<path d="M${MARGIN} ${MARGIN}V${HEIGHT - MARGIN}H${WIDTH - MARGIN}" fill="none" stroke="#888"/>`;
  const ends = [
    text(MARGIN, HEIGHT - MARGIN + 16, "start", String(Number(x.min.toPrecision(4)))), text(WIDTH - MARGIN, HEIGHT - MARGIN + 16, "end", String(Number(x.max.toPrecision(4)))),
    text(MARGIN - 4, HEIGHT - MARGIN, "end", String(Number(y.min.toPrecision(3)))), text(MARGIN - 4, MARGIN + 4, "end", String(Number(y.max.toPrecision(3)))),
    text(WIDTH / 2, HEIGHT - 12, "middle", columns[0]), text(WIDTH / 2, 24, "middle", name, colorOf("--text")),
  ].join("");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img" aria-label="${escaped(name).replaceAll('"', "&quot;")}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="${colorOf("--page")}"/>${axes}${lines.join("")}${ends}</svg>\n`;
}

function escaped(text) {
  // XML 1.0 has no other control characters.
  const allowed = oneDirection(text).replaceAll(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  return allowed.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
