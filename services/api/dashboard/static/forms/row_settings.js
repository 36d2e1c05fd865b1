// The hyperparameters that affect how rows are tokenized.

import { bodyOf, resolve } from "./schema.js";
import { objectForm } from "./schema_form.js";

const SETTINGS = ["max_seq_length", "data_format", "chat_template_kwargs", "control_tokens", "llamafactory"];

/** Their form for a method, from the schema of the examples request. */
export function rowSettings(context, method, value) {
  const { schema } = bodyOf(context.description, "/v1/files/{file_id}/examples");
  const within = (outer, name) => resolve(context.description, only(context.description, resolve(context.description, outer).properties[name]));
  const whole = within(within(within(schema, "method"), method), "hyperparameters");
  const properties = Object.fromEntries(SETTINGS.map((name) => [name, whole.properties[name]]));
  return objectForm(context, { properties }, value);
}

/** The non-null schema of an optional value. */
function only(description, schema) {
  return resolve(description, schema).anyOf?.find((each) => each.type !== "null") ?? schema;
}
