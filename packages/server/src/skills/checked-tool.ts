import type { Logger, LogLevel, ToolContext, ToolRegistry } from "@toolrack/core";
import { logLine } from "@toolrack/core/internal";
import type { FolderGrant, SandboxGrant } from "../config/index.ts";
import { asRecord, isRecord } from "../helpers/index.ts";
import type { DataFolder, OpenFolder, Sandbox } from "../sandbox/index.ts";
import type { StoredSkillTool } from "../store/index.ts";
import type { LoadedSkill } from "./skill.ts";
import type { InstallPackages } from "./skill-packages.ts";
import type { ToolUsage } from "./tool-usage.ts";

/**
 * Turns the answer of a service or script into a tool's result. The answer is only data: even if it has the
 * form of a tool's result, it cannot name files of this machine. But an answer that reports a failure becomes
 * an error. `more` are attachments beside those in the answer.
 */
export function skillResult(value: unknown, more: readonly Attachment[] = []): unknown {
  if (typeof value === "string") return { type: "text", content: value };
  if (typeof value !== "object" || value === null) return value;
  const given: Record<string, unknown> = { ...value };
  const listed: unknown[] = Array.isArray(given.attachments) ? given.attachments : [];
  // Only attachments whose URL is a data URL, which holds their content, become attachments of the result.
  // Any other URL stays a text in the answer.
  const own = listed.filter(isInline).map(
    ({ mime, url, filename }): Attachment => ({
      type: "file",
      mime,
      url,
      ...(typeof filename === "string" && { filename }),
    }),
  );
  const shown = listed.map((one) => (isInline(one) ? { ...one, url: "[attached]" } : one));
  const structured = own.length === 0 ? value : { ...given, attachments: shown };
  const content = JSON.stringify(structured);
  const attachments = [...own, ...more];
  const isFailure = given.success === false || given.isError === true || given.type === "error";
  return {
    ...(isFailure ? { type: "error", content: reasonIn(given) ?? content } : { type: "json", content }),
    structured,
    ...(attachments.length > 0 && { attachments }),
  };
}

interface Attachment {
  readonly type: "file";
  readonly mime: string;
  readonly url: string;
  readonly filename?: string;
}

function reasonIn({ error, message, output, content }: Record<string, unknown>): string | undefined {
  const nested = isRecord(error) ? error.message : error;
  return [nested, message, output, content].find(
    (part): part is string => typeof part === "string" && part !== "",
  );
}

function isInline(value: unknown): value is { mime: string; url: string; filename?: unknown } {
  const { mime, url } = asRecord(value);
  return typeof mime === "string" && typeof url === "string" && /^data:/i.test(url);
}

/** Logs the lines that a program printed beside its answer. */
export function logPrinted(context: unknown, level: LogLevel, text: string): void {
  for (const line of text.split("\n")) logLine(context, level, line.trimEnd());
}

export interface SkillSurroundings {
  readonly registry: ToolRegistry;
  /** The absolute path of the workspace. */
  readonly workspace: string;
  /** Private hosts and address ranges that tools of trusted skills may reach. */
  readonly allowPrivate: readonly string[];
  readonly readValue: ReadValue;
  /** Returns the sandbox, which is opened when the first script runs. */
  readonly sandbox: () => Promise<Sandbox>;
  /** What the operator grants skills, by the name or id of a skill, and their tools, by the id of a tool. */
  readonly grants: Readonly<Record<string, SandboxGrant>>;
  /** Opens the data folder of this name, where what a skill's scripts write lasts. */
  readonly openData: (name: string) => Promise<DataFolder>;
  /** Opens folders of the workspace, as a grant names them. */
  readonly openFolders: (granted: readonly FolderGrant[]) => Promise<readonly OpenFolder[]>;
  readonly install: InstallPackages;
  readonly logger: Logger;
}

/** A tool of a skill, with its parsed and checked `usage`. */
export interface CheckedTool {
  readonly skill: LoadedSkill;
  readonly tool: StoredSkillTool;
  readonly usage: ToolUsage;
}

export type ToolRunner = (context: ToolContext) => Promise<unknown>;

/** Finds the value of a secret or a setting by its name; undefined when there is none. */
export type ReadValue = (name: string, kind: ValueKind) => Promise<string | undefined>;
type ValueKind = "secret" | "setting";

const reference = /\{\{\s*(secret|setting):([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}/g;
const secretReference = /\{\{\s*secret:[A-Za-z_][A-Za-z0-9_.-]*\s*\}\}/;

/**
 * The arguments with which a skill's tool runs: the `defaults` of its usage, then the caller's arguments,
 * then the fixed `arguments` of its usage, each replacing those before. Only the fixed `arguments` of a
 * trusted skill may refer to secrets.
 */
export async function filledArguments(
  { skill, usage }: CheckedTool,
  { readValue }: Pick<SkillSurroundings, "readValue">,
  { input, env }: Pick<ToolContext, "input" | "env">,
): Promise<Record<string, unknown>> {
  const { arguments: fixed, defaults } = usage.settings;
  return { ...defaults, ...input, ...(await fillValuesWithin(fixed, valuesFor(skill, readValue, env))) };
}

/**
 * Returns the function that reads settings and secrets for a call of a skill's tool: what was set for this tool
 * (`env`) comes before what was set for the workspace. An untrusted skill gets no secrets: then it rejects.
 */
export function valuesFor(
  { name, trusted }: CheckedTool["skill"],
  read: ReadValue,
  env: ToolContext["env"],
): ReadValue {
  if (trusted) return async (wanted, kind) => env[wanted] ?? read(wanted, kind);
  return async (wanted, kind) => {
    if (kind === "setting") return read(wanted, kind);
    throw new Error(
      `The skill "${name}" came from elsewhere and is given no secrets until the operator trusts it. Trust it with: toolrack skills trust "${name}"`,
    );
  };
}

export function hasSecretReference(text: string): boolean {
  return secretReference.test(text);
}

/** Replaces every `{{secret:NAME}}` and `{{setting:NAME}}` in the text by `toValue` of it. Throws if it is not set. */
export async function fillValues(
  text: string,
  read: ReadValue,
  toValue: (value: string) => string = (value) => value,
): Promise<string> {
  const values = new Map<string, string>();
  for (const [whole, kind, name = ""] of text.matchAll(reference)) {
    if (values.has(whole)) continue;
    const value = await read(name, kind === "setting" ? "setting" : "secret");
    if (value === undefined) {
      throw new Error(
        `The tool needs the ${kind} ${name}, which is not set. Set it with: toolrack ${kind}s set ${name}`,
      );
    }
    values.set(whole, toValue(value));
  }
  return text.replace(reference, (whole) => values.get(whole) ?? "");
}

/** Like `fillValues`, for every text in a value, at any depth. */
export async function fillValuesWithin<Value>(value: Value, read: ReadValue): Promise<Value>;
export async function fillValuesWithin(value: unknown, read: ReadValue): Promise<unknown> {
  if (typeof value === "string") return fillValues(value, read);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return Promise.all(value.map((member) => fillValuesWithin(member, read)));
  const entries = Object.entries(value).map(
    async ([name, member]) => [name, await fillValuesWithin(member, read)] as const,
  );
  return Object.fromEntries(await Promise.all(entries));
}

/** Whether any text in a value refers to a secret. */
export function hasSecretWithin(value: unknown): boolean {
  if (typeof value === "string") return hasSecretReference(value);
  return typeof value === "object" && value !== null && Object.values(value).some(hasSecretWithin);
}
