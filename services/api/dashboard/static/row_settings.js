// The hyperparameters that decide what the trainer sees of a row.

import { bodyOf, resolve } from "./schema.js";
import { objectForm } from "./schema_form.js";

const SETTINGS = ["max_seq_length", "data_format", "chat_template_kwargs", "llamafactory"];

/** A form of these for a method, from the description of the request that shows the examples. */
export function rowSettings(context, method, value) {
  const { schema } = bodyOf(context.description, "/v1/files/{file_id}/examples");
  const within = (outer, name) => resolve(context.description, only(context.description, resolve(context.description, outer).properties[name]));
  const whole = within(within(within(schema, "method"), method), "hyperparameters");
  const properties = Object.fromEntries(SETTINGS.map((name) => [name, whole.properties[name]]));
  return objectForm(context, { properties }, value);
}

/** The schema of an optional value that is not null. */
function only(description, schema) {
  return resolve(description, schema).anyOf?.find((each) => each.type !== "null") ?? schema;
}
