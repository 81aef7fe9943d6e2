import * as s from "../../helpers/schema.ts";
import { isSafeVariable } from "../shell-command.ts";
import { answer, defineTool } from "../tool-definition.ts";

const HIDDEN = "[set, hidden]";

export default defineTool({
  name: "env",
  description: `Tells which environment variables the server has. Lists their names, or looks up one by \`name\` or several by \`prefix\`. Values are shown only for variables that never hold secrets (PATH, HOME, LANG, LC_*, TZ, TMPDIR, USER, SHELL, TERM); all others read ${HIDDEN}. Use it to check that something is configured, not to read credentials.`,
  input: {
    "name?": s.text("One variable, exactly as it is spelt.", { minLength: 1 }),
    "prefix?": s.text("Only variables whose names begin with this, for example NODE_."),
  },
  isClosed: true,
  output: {
    variables: s.list(
      s.object({
        name: s.text(),
        value: s.anything({ type: ["string", "null"], description: "Null when it is hidden." }),
      }),
    ),
  },
  handler({ name, prefix }) {
    const variables = Object.keys(process.env)
      .filter((key) => (name === undefined ? key.startsWith(prefix ?? "") : key === name))
      .sort()
      .map((key) => ({ name: key, value: isSafeVariable(key) ? (process.env[key] ?? "") : null }));
    const lines = variables.map((variable) => `${variable.name}=${variable.value ?? HIDDEN}`);
    return answer(lines.join("\n") || nothingFound(name, prefix), { variables });
  },
  metadata: { category: "system", readOnly: true, idempotent: true, tags: ["environment", "configuration"] },
});

function nothingFound(name: string | undefined, prefix: string | undefined): string {
  if (name !== undefined) return `${name} is not set.`;
  return prefix ? `No variable begins with ${prefix}.` : "No variables are set.";
}
