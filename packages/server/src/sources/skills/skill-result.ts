/**
 * What a service or script answered, as the result of a tool. It is data: one that happens to look like a tool's own
 * result cannot name files of this machine or pass for something else. Only a failure that it tells of is one. `more` is
 * attached beside what it attaches itself.
 */
export function skillResult(value: unknown, more: readonly Attachment[] = []): unknown {
  if (typeof value === "string") return { type: "text", content: value };
  if (typeof value !== "object" || value === null) return value;
  const given = value as Record<string, unknown>;
  const own = attachmentsOf(given);
  const attachments = [...own, ...more];
  const structured = own.length === 0 ? value : withoutAttached(given);
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
  const nested =
    typeof error === "object" && error !== null ? (error as { message?: unknown }).message : error;
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
  return attachments.flatMap((one: { mime?: unknown; url?: unknown; filename?: unknown } | null) => {
    if (!isCarried(one)) return [];
    const { mime, url, filename } = one;
    return [{ type: "file" as const, mime, url, ...(typeof filename === "string" ? { filename } : {}) }];
  });
}

function withoutAttached(given: Record<string, unknown>): Record<string, unknown> {
  const shown = (given.attachments as unknown[]).map((one) =>
    isCarried(one) ? { ...one, url: "[attached]" } : one,
  );
  return { ...given, attachments: shown };
}

function isCarried(value: unknown): value is { mime: string; url: string; filename?: unknown } {
  const { mime, url } = (value ?? {}) as { mime?: unknown; url?: unknown };
  return typeof mime === "string" && typeof url === "string" && /^data:/i.test(url);
}
