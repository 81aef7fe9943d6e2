/** Characters that one event may have. What streams models make is far below it; images as text come near. */
export const LONGEST_EVENT = 32_000_000;

/** One event has more characters than are taken in. */
export class EventTooLong extends Error {
  override readonly name = "EventTooLong";
}

/**
 * The `data` of each event of a stream, however its bytes were cut. Comments and other fields are passed over. Throws
 * `EventTooLong`.
 */
export async function* readSse(
  stream: AsyncIterable<Uint8Array>,
  longest = LONGEST_EVENT,
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const lines = new SseLines();
  let data: string[] = [];
  let size = 0;
  const take = function* (found: readonly string[]): Generator<string> {
    for (const line of found) {
      if (line === "") {
        if (data.length > 0) yield data.join("\n");
        data = [];
        size = 0;
      } else if (line.startsWith("data:")) {
        data.push(line.slice(line[5] === " " ? 6 : 5));
        size += line.length;
      }
    }
    if (size + lines.pending > longest) throw new EventTooLong();
  };
  for await (const bytes of stream) yield* take(lines.add(decoder.decode(bytes, { stream: true })));
  // Some servers leave out the empty line at the end.
  yield* take([...lines.add(decoder.decode()), ...lines.rest(), ""]);
}

/**
 * The lines of such a stream, which end with LF, CR LF or CR. Each piece is looked at once: a long line comes in thousands of them, and looking at
 * all of it every time would hold up everybody.
 */
class SseLines {
  #pieces: string[] = [];
  /** Characters of the line that has not ended. */
  pending = 0;
  #endedWithReturn = false;

  add(text: string): string[] {
    if (text === "") return [];
    const lines: string[] = [];
    // The second half of a CR LF ends nothing.
    let start = this.#endedWithReturn && text.startsWith("\n") ? 1 : 0;
    for (const { 0: end, index } of text.matchAll(/\r\n?|\n/g)) {
      if (index < start) continue;
      this.#keep(text.slice(start, index));
      lines.push(this.#line());
      start = index + end.length;
    }
    this.#keep(text.slice(start));
    this.#endedWithReturn = text.endsWith("\r");
    return lines;
  }

  rest(): string[] {
    return this.pending === 0 ? [] : [this.#line()];
  }

  #keep(piece: string): void {
    if (piece === "") return;
    this.#pieces.push(piece);
    this.pending += piece.length;
  }

  #line(): string {
    const line = this.#pieces.length === 1 ? this.#pieces[0]! : this.#pieces.join("");
    this.#pieces = [];
    this.pending = 0;
    return line;
  }
}
