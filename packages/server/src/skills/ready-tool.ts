import type { Logger, LogLevel, ToolContext, ToolRegistry } from "@toolrack/core";
import { logLine } from "@toolrack/core/internal";
import { asRecord, isRecord } from "../helpers/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { StoredSkillTool } from "../store/index.ts";
import type { LoadedSkill } from "./skill.ts";
import type { ToolUsage } from "./usage.ts";

/**
 * What a service or script answered, as the result of a tool. It is data: one that happens to look like a tool's own
 * result cannot name files of this machine or pass for something else. Only a failure that it tells of is one. `more` is
 * attached beside what it attaches itself.
 */
export function skillResult(value: unknown, more: readonly Attachment[] = []): unknown {
  if (typeof value === "string") return { type: "text", content: value };
  if (typeof value !== "object" || value === null) return value;
  const given: Record<string, unknown> = { ...value };
  const own = attachmentsOf(given);
  const attachments = [...own, ...more];
  const structured = own.length === 0 ? value : { ...given, attachments: shownAttachments(given) };
  const content = JSON.stringify(structured);
  return {
    ...(isFailure(given)
      ? { type: "error", content: reasonIn(given) ?? content }
      : { type: "json", content }),
    structured,
    ...(attachments.length === 0 ? {} : { attachments }),
  };
}

function isFailure({ success, isError, type }: Record<string, unknown>): boolean {
  return success === false || isError === true || type === "error";
}

function reasonIn({ error, message, output, content }: Record<string, unknown>): string | undefined {
  const nested = isRecord(error) ? error.message : error;
  return [nested, message, output, content].find(
    (part): part is string => typeof part === "string" && part !== "",
  );
}

interface Attachment {
  readonly type: "file";
  readonly mime: string;
  readonly url: string;
  readonly filename?: string;
}

/** Those that carry their content with them; any other address is only text. */
function attachmentsOf({ attachments }: Record<string, unknown>): Attachment[] {
  if (!Array.isArray(attachments)) return [];
  return attachments.filter(isCarried).map(({ mime, url, filename }) => ({
    type: "file",
    mime,
    url,
    ...(typeof filename === "string" && { filename }),
  }));
}

function shownAttachments({ attachments }: Record<string, unknown>): unknown[] {
  if (!Array.isArray(attachments)) return [];
  return attachments.map((one) => (isCarried(one) ? { ...one, url: "[attached]" } : one));
}

function isCarried(value: unknown): value is { mime: string; url: string; filename?: unknown } {
  const { mime, url } = asRecord(value);
  return typeof mime === "string" && typeof url === "string" && /^data:/i.test(url);
}

/** What a program printed beside its answer, as lines of the call's log. */
export function logPrinted(context: unknown, level: LogLevel, text: string): void {
  for (const line of text.split("\n")) logLine(context, level, line.trimEnd());
}

/** What tools of skills run with. */
export interface SkillSurroundings {
  readonly registry: ToolRegistry;
  /** Absolute. */
  readonly workspace: string;
  /** Hosts and ranges that may be reached although they are private. */
  readonly allowPrivate: readonly string[];
  readonly readSecret: ReadSecret;
  /** Opened when the first script runs. */
  readonly sandbox: () => Promise<Sandbox>;
  readonly logger: Logger;
}

/** A tool of a skill whose row was read and found usable. */
export interface ReadyTool {
  readonly skill: LoadedSkill;
  readonly tool: StoredSkillTool;
  readonly usage: ToolUsage;
}

/** Runs a tool of one type. */
export type ToolRunner = (context: ToolContext) => Promise<unknown>;

/** Finds the value of a secret by its name; undefined when there is none. */
export type ReadSecret = (name: string) => Promise<string | undefined>;

const reference = /\{\{\s*secret:([A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}/g;

/**
 * What a skill's tool of any type runs with: what the caller said, and what the operator wrote as `arguments` and
 * `defaults`. Only the `arguments` may refer to secrets, and only those of a trusted skill.
 */
export async function filledArguments(
  { skill, usage }: ReadyTool,
  { readSecret }: Pick<SkillSurroundings, "readSecret">,
  input: Readonly<Record<string, unknown>>,
): Promise<Record<string, unknown>> {
  const { arguments: fixed, defaults } = usage.settings;
  return { ...defaults, ...input, ...(await fillSecretsWithin(fixed, secretsFor(skill, readSecret))) };
}

/** Where a skill's tools read secrets: nowhere, when it came from elsewhere. */
export function secretsFor({ name, trusted }: ReadyTool["skill"], read: ReadSecret): ReadSecret {
  if (trusted) return read;
  return () =>
    Promise.reject(
      new Error(
        `The skill "${name}" came from elsewhere and is given no secrets until the operator trusts it. Trust it with: toolrack skills trust "${name}"`,
      ),
    );
}

export function hasSecretReference(text: string): boolean {
  return text.search(reference) !== -1;
}

/** The text with every `{{secret:NAME}}` replaced by what `toValue` makes of the secret. Throws when one is not set. */
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

/** The same for every value of a map. */
export async function fillSecretValues(
  texts: Readonly<Record<string, string>>,
  read: ReadSecret,
): Promise<Record<string, string>> {
  const filled: Record<string, string> = {};
  for (const [name, text] of Object.entries(texts)) filled[name] = await fillSecrets(text, read);
  return filled;
}

/** The same for every text in a value, however deep. */
async function fillSecretsWithin<Value>(value: Value, read: ReadSecret): Promise<Value>;
async function fillSecretsWithin(value: unknown, read: ReadSecret): Promise<unknown> {
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
