const headings = { feat: "New", fix: "Fixed", perf: "Faster" };
const form = /^(?<kind>\w+)(?:\([^)]*\))?(?<breaking>!)?:\s*(?<text>.+)$/;

/** Called by the rack with the name of the tool, its arguments, and who called. */
exports.execute = async (toolName, params) => {
  const changes = params.messages.flatMap((message) => form.exec(message)?.groups ?? []);
  switch (toolName) {
    case "draft":
      return { notes: draft(changes), skipped: params.messages.length - changes.length };
    case "next_version":
      return { version: nextVersion(params.version, changes) };
    default:
      throw new Error(`There is no tool "${toolName}" in this skill.`);
  }
};

function draft(changes) {
  const sections = Object.entries(headings).flatMap(([kind, heading]) => {
    const lines = changes.filter((change) => change.kind === kind).map(({ text }) => `- ${text}`);
    return lines.length === 0 ? [] : [`## ${heading}\n\n${lines.join("\n")}`];
  });
  return sections.join("\n\n");
}

function nextVersion(version, changes) {
  const [major, minor, patch] = version.split(".").map(Number);
  if (changes.some(({ breaking }) => breaking)) return `${major + 1}.0.0`;
  return changes.some(({ kind }) => kind === "feat")
    ? `${major}.${minor + 1}.0`
    : `${major}.${minor}.${patch + 1}`;
}
