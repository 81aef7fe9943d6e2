/** The `data` of each event of a stream, however its bytes were cut. Comments and other fields are passed over. */
export async function* readSse(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const lines = new LineSplitter();
  let data: string[] = [];
  const take = function* (found: readonly string[]): Generator<string> {
    for (const line of found) {
      if (line === "") {
        if (data.length > 0) yield data.join("\n");
        data = [];
      } else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
    }
  };
  for await (const bytes of stream) yield* take(lines.add(decoder.decode(bytes, { stream: true })));
  // Some servers leave out the empty line at the end.
  yield* take([...lines.add(decoder.decode()), ...lines.rest(), ""]);
}

/** Lines end with LF, CR LF or CR; a CR at the end of a piece may be the first half of a CR LF. */
class LineSplitter {
  #pending = "";

  add(text: string): string[] {
    this.#pending += text;
    const isOpen = this.#pending.endsWith("\r");
    const whole = isOpen ? this.#pending.slice(0, -1) : this.#pending;
    const lines = whole.split(/\r\n|\n|\r/);
    this.#pending = (lines.pop() ?? "") + (isOpen ? "\r" : "");
    return lines;
  }

  rest(): string[] {
    const rest = this.#pending.replace(/\r$/, "");
    this.#pending = "";
    return rest === "" ? [] : [rest];
  }
}
