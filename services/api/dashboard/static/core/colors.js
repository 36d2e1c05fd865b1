// Colors of the design's tokens for canvases, which know neither variables nor light-dark().

/** The color of a token, such as `--bad`, in the color scheme and contrast of now. */
export function colorOf(token) {
  const probe = document.createElement("span");
  probe.style.color = `var(${token})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
