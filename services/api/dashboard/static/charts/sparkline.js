// A small curve without axes, for lists and summaries.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 96;
const HEIGHT = 22;

/** The curve of some values as an element; null for fewer than two. */
export function sparkline(values) {
  if (values.length < 2) return null;
  const low = Math.min(...values);
  const spread = Math.max(...values) - low;
  const points = values.map((value, index) => {
    const share = spread > 0 ? (value - low) / spread : 0.5;
    return `${((WIDTH * index) / (values.length - 1)).toFixed(1)},${(HEIGHT - 2 - share * (HEIGHT - 4)).toFixed(1)}`;
  });
  const picture = document.createElementNS(SVG, "svg");
  const line = document.createElementNS(SVG, "polyline");
  for (const [name, value] of Object.entries({ class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" })) picture.setAttribute(name, value);
  line.setAttribute("points", points.join(" "));
  picture.append(line);
  return picture;
}
