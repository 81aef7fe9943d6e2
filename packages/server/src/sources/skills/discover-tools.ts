import { lstatSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { extname, join } from "node:path";
import type { Sandbox } from "../../runners/sandbox/types.ts";
import type { NewSkillTool } from "../../store/skills/skill-store.ts";
import { askForTools } from "./run-script.ts";
import { resolveCommand, type ScriptModule } from "./script-command.ts";
import { fromParameterLines, takesParameterLines } from "./usage-short-list.ts";

const interpreters: Readonly<Record<string, string>> = {
  ".js": "node",
  ".mjs": "node",
  ".cjs": "node",
  ".ts": "node",
  ".py": "python3",
  ".sh": "sh",
};

export interface Discovery {
  readonly tools: readonly NewSkillTool[];
  readonly warnings: readonly string[];
}

export interface DiscoveryPlace {
  readonly name: string;
  /** Absolute. */
  readonly directory: string;
  readonly trusted: boolean;
  /** The Markdown of its `SKILL.md`. */
  readonly body: string;
}

/**
 * The tools of a skill that has no `tools.json`: what `getTools()` of its `index.js` or `index.py` says, or the
 * sections below "## Tools" of its `SKILL.md`, or else every file in `scripts/`.
 */
export async function discoverTools(
  place: DiscoveryPlace,
  sandbox: () => Promise<Sandbox>,
): Promise<Discovery> {
  const module = indexOf(place);
  if (module === undefined) return { tools: await fromScripts(place.directory), warnings: [] };
  const described = fromSections(place.body, module);
  try {
    const answer = await askForTools(place, module, await sandbox(), AbortSignal.timeout(30_000));
    return { tools: fromAnswer(answer, module), warnings: [] };
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    if (described.length > 0) return { tools: described, warnings: [] };
    return {
      tools: [],
      warnings: [
        `${module.file} does not say which tools it has: ${reason} Export getTools(), or add a tools.json.`,
      ],
    };
  }
}

function indexOf(place: DiscoveryPlace): ScriptModule | undefined {
  try {
    return resolveCommand(undefined, place, place.directory).module;
  } catch {
    return undefined;
  }
}

/** `[{name, description, parameters}]`, or the same as OpenAI writes it. */
function fromAnswer(answer: unknown, { file }: ScriptModule): NewSkillTool[] {
  const list = Array.isArray(answer) ? answer : (answer as { tools?: unknown } | null)?.tools;
  if (!Array.isArray(list)) throw new Error("getTools() must answer with a list.");
  return list.map((entry) => {
    const { name, description, parameters, displayName } = unwrap(entry);
    if (typeof name !== "string" || name.trim() === "")
      throw new Error("getTools() has a tool without a name.");
    return {
      name,
      type: "script",
      command: commandOf(file),
      description: typeof description === "string" ? description : "",
      ...(typeof displayName === "string" ? { displayName } : {}),
      ...(typeof parameters === "object" && parameters !== null
        ? { usage: JSON.stringify({ parameters }) }
        : {}),
    };
  });
}

function unwrap(entry: unknown): Record<string, unknown> {
  const own = (typeof entry === "object" && entry !== null ? entry : {}) as Record<string, unknown>;
  return typeof own.function === "object" && own.function !== null
    ? (own.function as Record<string, unknown>)
    : own;
}

/** "## Tools" with "### name" below it, and lines such as "- `query` (string, required): what to search for". */
function fromSections(body: string, { file }: ScriptModule): NewSkillTool[] {
  const chapter =
    /^##\s+(?:tools|工具|commands|命令)\s*$([\s\S]*?)(?=^##\s|$(?![\s\S]))/im.exec(body)?.[1] ?? "";
  return chapter
    .split(/^###\s+/m)
    .slice(1)
    .flatMap((section) => {
      const [head = "", ...rest] = section.split("\n");
      const name = head.replaceAll("`", "").trim();
      if (!/^[\w-]+$/.test(name)) return [];
      const description = rest.join("\n").trim();
      const usage = takesParameterLines(description) ? JSON.stringify(fromParameterLines(description)) : "";
      return [{ name, type: "script" as const, command: commandOf(file), description, usage }];
    });
}

async function fromScripts(directory: string): Promise<NewSkillTool[]> {
  const folder = join(directory, "scripts");
  if (lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
  const entries = await readdir(folder, { withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && interpreters[extname(entry.name)] !== undefined);
  return files
    .map(({ name }) => name)
    .sort()
    .map((name) => ({
      name: name.slice(0, -extname(name).length).replaceAll(/[^\w-]+/g, "_"),
      type: "script",
      command: commandOf(`scripts/${name}`),
      description: `Runs scripts/${name} of the skill. Its SKILL.md says how.`,
      usage: scriptUsage,
    }));
}

/** A script of the Agent Skills format takes arguments on its command line and prints text. */
const scriptUsage = JSON.stringify({
  parameters: {
    type: "object",
    properties: {
      args: { type: "array", items: { type: "string" }, description: "Arguments of the command line." },
    },
    additionalProperties: true,
  },
  argv: "args",
  output: "text",
});

function commandOf(file: string): string {
  return `${interpreters[extname(file)] ?? "node"} ${/\s/.test(file) ? `'${file}'` : file}`;
}
