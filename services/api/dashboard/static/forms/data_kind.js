// What the rows of a file are for, told by the fields of the first ones.

const has = (row, ...names) => names.every((name) => row[name] !== undefined && row[name] !== null);
const hasAny = (row, ...names) => names.some((name) => has(row, name));
const lastRole = ({ messages }) => (Array.isArray(messages) ? messages.at(-1)?.role : null);
const isOpen = (row) => (Array.isArray(row.messages) ? lastRole(row) !== "assistant" : hasAny(row, "prompt", "question"));

const ONLINE = ["reinforcement", "ppo", "distillation"];

/**
 * The kinds of rows: the first one of which a row `fits` is its kind. `method` is the training method
 * whose check its rows pass; null where only their use tells. `readers` are all methods that read them.
 * `purpose` is that of an upload.
 */
const KINDS = [
  { name: "batch", text: "requests of a batch", method: null, readers: [], purpose: "batch", uses: ["batch"], fits: (row) => has(row, "custom_id", "url", "body") },
  { name: "preferences", text: "preferences: two answers, of which one is preferred", method: "dpo", readers: ["dpo", "reward_model"], purpose: "fine-tune", uses: ["fine-tune"], fits: (row) => has(row, "chosen", "rejected") || has(row, "preferred_output", "non_preferred_output") },
  { name: "feedback", text: "answers with feedback: each desirable or not", method: "kto", readers: ["kto"], purpose: "fine-tune", uses: ["fine-tune"], fits: (row) => hasAny(row, "label", "kto_tag", "desirable") && (lastRole(row) === "assistant" || hasAny(row, "completion", "response")) },
  { name: "prompts", text: "prompts with gold answers: for reinforcement learning, evaluations and rollouts", method: null, readers: ONLINE, purpose: "fine-tune", uses: ["training", "evaluation", "rollout"], fits: (row) => isOpen(row) && hasAny(row, "gold", "answer", "golds", "ground_truth", "reward_model") && !hasAny(row, "completion", "response") },
  { name: "demonstrations", text: "demonstrations: conversations whose answers are imitated", method: "supervised", readers: ["supervised"], purpose: "fine-tune", uses: ["fine-tune"], fits: (row) => lastRole(row) === "assistant" || has(row, "conversations") || has(row, "instruction", "output") || (has(row, "prompt") && hasAny(row, "completion", "response")) },
  { name: "bare prompts", text: "prompts without answers: for reinforcement learning and rollouts", method: null, readers: ONLINE, purpose: "fine-tune", uses: ["training", "rollout"], fits: (row) => lastRole(row) === "user" || (hasAny(row, "prompt", "question") && !Array.isArray(row.messages)) },
  { name: "documents", text: "documents for an index", method: null, readers: [], purpose: "user_data", uses: [], fits: (row) => has(row, "contents") || has(row, "title", "text") },
  { name: "texts", text: "texts: for pretraining", method: "pretraining", readers: ["pretraining"], purpose: "fine-tune", uses: ["fine-tune"], fits: (row) => typeof row.text === "string" },
];

const NEARLY_ALL = 0.9;

/** The kind of some rows; null unless nearly all that are objects are of one kind. */
export function kindOf(rows) {
  const objects = rows.filter((row) => row !== null && typeof row === "object" && !Array.isArray(row));
  const kinds = Map.groupBy(objects, (row) => KINDS.find((kind) => kind.fits(row)) ?? null);
  const [kind, members] = [...kinds].sort(([, one], [, other]) => other.length - one.length)[0] ?? [null, []];
  return members.length >= NEARLY_ALL * objects.length ? kind : null;
}

const READ_BYTES = 64 * 1024;

/** The kind of the first complete rows of a file of JSON Lines that is to be uploaded. */
export async function kindOfUpload(file) {
  const text = await file.slice(0, READ_BYTES).text();
  const lines = text.split("\n");
  if (file.size > READ_BYTES) lines.pop(); // it is cut
  return kindOf(lines.filter((line) => line.trim()).flatMap((line) => {
    try {
      return [JSON.parse(line)];
    } catch {
      return [];
    }
  }));
}
