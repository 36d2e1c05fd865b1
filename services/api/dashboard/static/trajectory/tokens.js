// The tokens of a training example, with those in the loss marked.

import { h } from "../core/dom.js";
import { number } from "../core/format.js";

const BREAK = /[\n\r]/;

/** A figure of an example's tokens, each in its own box, with token counts. */
export function exampleFigure(example) {
  const learned = example.mask.reduce((sum, has) => sum + has, 0);
  const counts = [
    `${number(example.token_ids.length + example.more_tokens)} tokens`,
    `${number(learned)} ${example.more_tokens ? "of those shown " : ""}in the loss`,
    example.cut_tokens ? `${number(example.cut_tokens)} truncated` : null,
    example.more_tokens ? `${number(example.more_tokens)} not shown` : null,
  ].filter(Boolean).join(", ");
  const boxes = example.texts.map((text, index) => h("span", {
    class: [example.mask[index] ? "learned" : null, BREAK.test(text) ? "break" : null].filter(Boolean).join(" ") || null,
    title: `token ${example.token_ids[index]}`,
  }, text));
  return h("figure", { class: "example" },
    h("figcaption", {}, h("strong", {}, example.part), h("span", { class: "quiet" }, ` ${counts}`)),
    h("pre", { class: "tokens boxes", tabindex: "0" }, boxes));
}

/** The legend of the boxes. */
export function tokensLegend() {
  return h("p", { class: "quiet tokens boxes" }, "Each box is a token: ", h("span", { class: "learned" }, "in the loss"), " or ",
    h("span", {}, "masked"), ".");
}
