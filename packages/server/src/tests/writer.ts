import type { ToolErrorResponse, ToolRegistry, ToolResult } from "@toolrack/core";
import { type Mask, redact } from "@toolrack/core/internal";
import { isRecord } from "../helpers/index.ts";
import { jsonOf } from "./expectation.ts";
import { recordedTool } from "./mock.ts";
import { escapeReferences, mapTexts, pointerStep, type RecordedTool, secretReference } from "./saved-call.ts";

/** A call cannot become a test. The message says why, and what would help. */
export class UnwritableCall extends Error {
  override readonly name = "UnwritableCall";
  /** The place of the value that cannot be written down: `arguments/pin`, `calls/0/answer/data`. */
  readonly path: string | undefined;

  constructor(message: string, path?: string) {
    super(message);
    this.path = path;
  }
}

/** What is known of a call that has ended. Secrets in it may be masked already. */
export interface EndedCall {
  readonly toolName: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly result: ToolResult;
  readonly error?: ToolErrorResponse;
  readonly timestamp: number;
}

const hiddenText = "[redacted]";
/** What stands in a record for a part that could not be kept. */
const lostText = /^\[(?:circular|too deep|unreadable|function|symbol|\d+ bytes)\]$/;
const lostKey = "[too large]";

/** Writes values of records down without their secrets. */
export class Writer {
  readonly #mask: Mask;
  /** Secrets that were found by the names of their places, also those that are too short to be looked for in texts. */
  readonly #found = new Set<string>();

  constructor(known: Mask, calls: readonly EndedCall[]) {
    for (const { parameters, result, error } of calls) {
      const values = [parameters, result.structured, jsonOf(result.content), result.content, error?.message];
      for (const value of [...values, result.blocks, result.metadata])
        redact(value, { mask: known, found: this.#found });
    }
    this.#found.delete(hiddenText);
    this.#mask = known.and(this.#found);
  }

  arguments(parameters: EndedCall["parameters"], path: string): Record<string, unknown> {
    const lost =
      findText(parameters, (text) => lostText.test(text)) ?? findKey(parameters, (key) => key === lostKey);
    if (lost !== undefined)
      throw new UnwritableCall(
        `${path}${lost} is not in the record. Write the test by hand.`,
        `${path}${lost}`,
      );
    return this.value(parameters, path) as Record<string, unknown>; // An object stays one.
  }

  /** The value with references in place of what is secret. Throws for a secret that no reference can replace. */
  value(value: unknown, path: string): unknown {
    const shown = this.#mask.apply(redact(value, { mask: this.#mask }));
    const key = findKey(shown, (name) => name.includes(hiddenText));
    if (key !== undefined) throw unmaskable(`${path}${key}`, "It is the name of a member.");
    const lost = findText(shown, (text) => text === "[too deep]");
    if (lost !== undefined) throw unmaskable(`${path}${lost}`, "It is nested too deep to be looked through.");
    return mapTexts(shown, (text, at) => {
      if (!text.includes(hiddenText) && !isHiddenBytes(text)) return escapeReferences(text);
      if (/(?:^|\/)(?:data|blob)$/.test(at) || /^data:[^,]{0,200};base64,/i.test(text))
        throw unmaskable(`${path}${at}`, "Bytes with a part left out are no bytes.");
      const name = referenceName(`${path}${at}`);
      // What stands right before and behind a hidden part of Base64 has bits of it.
      const pieces = text.split(/[\w+/]{0,4}\[redacted\][\w+/]{0,4}={0,2}/);
      return pieces.map(escapeReferences).join(secretReference(name));
    });
  }

  /** The definitions of tools, for a rack that does not have them. */
  tools(names: ReadonlySet<string>, registry: Pick<ToolRegistry, "get">): Record<string, RecordedTool> {
    const found = [...names].flatMap((name): [string, RecordedTool][] => {
      const tool = registry.get(name);
      const recorded = tool && recordedTool(tool);
      return recorded === undefined ? [] : [[name, this.#mask.apply(recorded)]];
    });
    return Object.fromEntries(found);
  }

  /** Throws when any part of the value still holds a secret. */
  requireClean(value: unknown, path: string): void {
    const holds = (text: string) => this.#mask.finds(text) || this.#found.has(text);
    const where =
      findText(value, holds) ??
      findKey(value, (key) => this.#mask.finds(key)) ??
      findNumber(value, (number) => holds(String(number)));
    if (where !== undefined) throw unmaskable(`${path}${where}`, "It is too short, or a number.");
  }
}

function isHiddenBytes(text: string): boolean {
  return text === "W3JlZGFjdGVkXQ==";
}

export function unmaskable(path: string, why: string): UnwritableCall {
  const shown = path.replace(/^\//, "");
  return new UnwritableCall(
    `${shown} holds a secret that cannot be left out of the file. ${why} Write the test by hand, without it.`,
    shown,
  );
}

/** `arguments/headers/apiKey` → `HEADERS_API_KEY`. */
function referenceName(path: string): string {
  const steps = path
    .split("/")
    .filter((step) => !/^(?:arguments|expect|calls|answer|result|snapshot|contains)$/.test(step));
  const words = steps
    .join("_")
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .replace(/[^A-Za-z0-9]+/g, "_");
  const name =
    words
      .replace(/^_+|_+$/g, "")
      .toUpperCase()
      .slice(-80) || "VALUE";
  return /^[A-Z_]/.test(name) ? name : `CALL_${name}`;
}

/** The JSON pointer of the first text for which `isMeant` is true. */
function findText(value: unknown, isMeant: (text: string) => boolean): string | undefined {
  return find(
    value,
    (one) => typeof one === "string" && isMeant(one),
    () => false,
  );
}

function findNumber(value: unknown, isMeant: (number: number) => boolean): string | undefined {
  return find(
    value,
    (one) => typeof one === "number" && isMeant(one),
    () => false,
  );
}

function findKey(value: unknown, isMeant: (key: string) => boolean): string | undefined {
  return find(value, () => false, isMeant);
}

function find(
  value: unknown,
  isValue: (value: unknown) => boolean,
  isKey: (key: string) => boolean,
  path = "",
): string | undefined {
  if (isValue(value)) return path;
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, item] of Object.entries(value)) {
    const here = `${path}/${pointerStep(key)}`;
    if (isRecord(value) && isKey(key)) return path;
    const found = find(item, isValue, isKey, here);
    if (found !== undefined) return found;
  }
  return undefined;
}
