import type { Logger, LogLevel, ToolContext, ToolRegistry } from "@toolrack/core";
import { logLine } from "@toolrack/core/internal";
import { asRecord, isRecord } from "../helpers/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { StoredSkillTool } from "../store/index.ts";
import type { LoadedSkill } from "./skill.ts";
import type { ToolUsage } from "./usage.ts";

/**
 * Turns the answer of a service or script into a tool's result. It is treated as data: an answer that looks like a
 * tool's own result cannot name files of this machine. Only a reported failure counts. `more` are further attachments.
 */
export function skillResult(value: unknown, more: readonly Attachment[] = []): unknown {
  if (typeof value === "string") return { type: "text", content: value };
  if (typeof value !== "object" || value === null) return value;
  const given: Record<string, unknown> = { ...value };
  const listed: unknown[] = Array.isArray(given.attachments) ? given.attachments : [];
  // Attachments with their content in a data URL; any other URL is only text.
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

/** Logs what a program printed beside its answer. */
export function logPrinted(context: unknown, level: LogLevel, text: string): void {
  for (const line of text.split("\n")) logLine(context, level, line.trimEnd());
}

export interface SkillSurroundings {
  readonly registry: ToolRegistry;
  /** Absolute. */
  readonly workspace: string;
  /** Private hosts and ranges that may be reached. */
  readonly allowPrivate: readonly string[];
  readonly readSecret: ReadSecret;
  /** Opened when the first script runs. */
  readonly sandbox: () => Promise<Sandbox>;
  readonly logger: Logger;
}

/** A tool of a skill whose row was checked. */
export interface CheckedTool {
  readonly skill: LoadedSkill;
  readonly tool: StoredSkillTool;
  readonly usage: ToolUsage;
}

export type ToolRunner = (context: ToolContext) => Promise<unknown>;

/** Finds the value of a secret by its name; undefined when there is none. */
export type ReadSecret = (name: string) => Promise<string | undefined>;

const reference = /\{\{\s*secret:([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}/g;

/**
 * The arguments of a skill's tool: those of the caller, and the operator's `arguments` and `defaults`. Only the
 * `arguments` of a trusted skill may refer to secrets.
 */
export async function filledArguments(
  { skill, usage }: CheckedTool,
  { readSecret }: Pick<SkillSurroundings, "readSecret">,
  input: Readonly<Record<string, unknown>>,
): Promise<Record<string, unknown>> {
  const { arguments: fixed, defaults } = usage.settings;
  return { ...defaults, ...input, ...(await fillSecretsWithin(fixed, secretsFor(skill, readSecret))) };
}

/** Reads secrets for a skill's tools. Rejects for an untrusted skill. */
export function secretsFor({ name, trusted }: CheckedTool["skill"], read: ReadSecret): ReadSecret {
  if (trusted) return read;
  return async () => {
    throw new Error(
      `The skill "${name}" came from elsewhere and is given no secrets until the operator trusts it. Trust it with: toolrack skills trust "${name}"`,
    );
  };
}

export function hasSecretReference(text: string): boolean {
  return text.search(reference) !== -1;
}

/** Replaces every `{{secret:NAME}}` in the text by `toValue` of the secret. Throws when one is not set. */
export async function fillSecrets(
  text: string,
  read: ReadSecret,
  toValue: (secret: string) => string = (secret) => secret,
): Promise<string> {
  const values = new Map<string, string>();
  for (const [, name = ""] of text.matchAll(reference)) {
    if (values.has(name)) continue;
    const value = await read(name);
    if (value === undefined) {
      throw new Error(
        `The tool needs the secret ${name}, which is not set. Set it with: toolrack secrets set ${name}`,
      );
    }
    values.set(name, toValue(value));
  }
  return text.replace(reference, (_whole, name: string) => values.get(name) ?? "");
}

/** Like `fillSecrets`, for every text in a value, at any depth. */
export async function fillSecretsWithin<Value>(value: Value, read: ReadSecret): Promise<Value>;
export async function fillSecretsWithin(value: unknown, read: ReadSecret): Promise<unknown> {
  if (typeof value === "string") return fillSecrets(value, read);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return Promise.all(value.map((member) => fillSecretsWithin(member, read)));
  const entries = Object.entries(value).map(
    async ([name, member]) => [name, await fillSecretsWithin(member, read)] as const,
  );
  return Object.fromEntries(await Promise.all(entries));
}

/** Whether any text in a value refers to a secret. */
export function hasSecretWithin(value: unknown): boolean {
  if (typeof value === "string") return hasSecretReference(value);
  return typeof value === "object" && value !== null && Object.values(value).some(hasSecretWithin);
}
