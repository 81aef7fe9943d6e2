export interface StreamedEvent {
  readonly event: string;
  readonly id?: string;
  readonly data: string;
  /** The data was longer than wanted and was not kept. */
  readonly oversized: boolean;
}

/**
 * Reads a stream of server-sent events. Text is decoded as it comes, so that a character cut in two by the network
 * arrives whole. Data beyond `longest` characters is let go as it arrives: the reader asks for it in pages instead.
 */
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  options: { readonly longest?: number; readonly onBytes?: () => void } = {},
): AsyncGenerator<StreamedEvent, void, void> {
  const { longest = Number.POSITIVE_INFINITY, onBytes } = options;
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let line = "";
  let lineIsCut = false;
  let draft = newDraft();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onBytes?.();
      const lines = decoder.decode(value, { stream: true }).split("\n");
      for (const [index, part] of lines.entries()) {
        if (!lineIsCut) line += part;
        if (line.length > longest) {
          line = line.slice(0, LONGEST_FIELD_NAME);
          lineIsCut = true;
        }
        if (index === lines.length - 1) break; // The rest of this line has not come yet.
        const whole = line.endsWith("\r") ? line.slice(0, -1) : line;
        if (whole === "" && draft.event !== undefined) {
          yield {
            event: draft.event,
            data: draft.data.join("\n"),
            oversized: draft.oversized,
            ...idOf(draft),
          };
        }
        if (whole === "") draft = newDraft();
        else take(draft, whole, lineIsCut);
        line = "";
        lineIsCut = false;
      }
    }
  } finally {
    // Whoever stops reading early wants the connection closed as well.
    await reader.cancel().catch(() => {});
  }
}

const LONGEST_FIELD_NAME = 16;

interface Draft {
  event: string | undefined;
  id: string | undefined;
  data: string[];
  oversized: boolean;
}

function newDraft(): Draft {
  return { event: undefined, id: undefined, data: [], oversized: false };
}

function take(draft: Draft, line: string, isCut: boolean): void {
  const colon = line.indexOf(":");
  if (colon === 0) return; // A sign of life.
  const field = colon === -1 ? line : line.slice(0, colon);
  const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (field === "event") draft.event = value;
  if (field === "id") draft.id = value;
  if (field === "data" && isCut) draft.oversized = true;
  if (field === "data" && !isCut) draft.data.push(value);
}

function idOf({ id }: Draft): { id?: string } {
  return id === undefined ? {} : { id };
}
