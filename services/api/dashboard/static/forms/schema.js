// Request schemas from the gateway's OpenAPI description.

import { isObject } from "../core/exact_json.js";

/** The body schema of POST `path` and its examples, each with a summary and a value. */
export function bodyOf(description, path) {
  const content = description.paths[path].post.requestBody.content["application/json"];
  return { schema: content.schema, examples: Object.values(content.examples ?? {}) };
}

/** Resolve references in a schema; keywords next to a reference override its target's. */
export function resolve(description, schema) {
  let found = schema;
  while (found.$ref || found.allOf?.length === 1) {
    const { $ref, allOf, ...beside } = found;
    found = { ...($ref ? named(description, $ref) : allOf[0]), ...beside };
  }
  return found;
}

/** The alternative schemas of a value. Null is one of them if omitting the field means another value. */
export function variants(description, schema) {
  const whole = resolve(description, schema);
  const found = alternatives(description, whole);
  const others = found.filter((each) => each.type !== "null");
  const nullDiffers = others.length < found.length && whole.default !== undefined && whole.default !== null;
  return nullDiffers ? [...others, { const: null }] : others;
}

/** How a value of a schema is entered: "fixed", "choice", "object", "list", "map", a type of JSON, or "json" for any other. */
export function kindOf(schema) {
  if ("const" in schema) return "fixed";
  if (schema.enum) return "choice";
  if (schema.properties) return "object";
  if (schema.type === "array" && schema.items) return "list";
  if (valuesOf(schema)) return "map";
  return ["boolean", "integer", "number", "string"].includes(schema.type) ? schema.type : "json";
}

/** The value schema of a map; null for other schemas. */
export function valuesOf({ type, additionalProperties, patternProperties }) {
  if (type !== "object") return null;
  const [byPattern = null] = Object.values(patternProperties ?? {});
  return isObject(additionalProperties) ? additionalProperties : byPattern;
}

/** The name of a variant: the value of its discriminator, its title, or its type. */
export function nameOf(description, schema) {
  if ("const" in schema) return schema.const === null ? "none" : String(schema.const);
  const marks = Object.values(schema.properties ?? {}).map((each) => resolve(description, each));
  const mark = marks.find((each) => typeof each.const === "string");
  return mark?.const ?? (schema.properties ? schema.title : schema.type) ?? "JSON";
}

/** Whether a schema's controls can hold a value; `complete` also requires its required fields. */
export function holds(description, schema, value, complete = false) {
  switch (kindOf(schema)) {
    case "fixed": return value === schema.const;
    case "choice": return schema.enum.includes(value);
    case "object": return isObject(value) && holdsFields(description, schema, value, complete);
    case "list": return Array.isArray(value);
    case "map": return isObject(value);
    case "integer": return Number.isInteger(value);
    case "json": return true;
    default: return typeof value === schema.type;
  }
}

function holdsFields(description, schema, value, complete) {
  const isMissing = complete && (schema.required ?? []).some((name) => !Object.hasOwn(value, name));
  return !isMissing && Object.entries(value).every(([name, item]) => {
    if (!Object.hasOwn(schema.properties, name)) return schema.additionalProperties === true;
    const field = resolve(description, schema.properties[name]);
    return !("const" in field) || field.const === item;
  });
}

function alternatives(description, schema) {
  const whole = resolve(description, schema);
  const several = whole.oneOf ?? whole.anyOf;
  return several ? several.flatMap((each) => alternatives(description, each)) : [whole];
}

/** The target of a local reference, such as "#/components/schemas/Name". */
function named(description, reference) {
  return reference.slice(2).split("/").reduce((place, part) => place[part.replaceAll("~1", "/").replaceAll("~0", "~")], description);
}
