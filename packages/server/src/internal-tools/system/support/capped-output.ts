/**
 * Keeps the beginning and the end of a stream, and counts what lay between. Memory stays within about twice the
 * limit, however much is written.
 */
export class CappedOutput {
  #size = 0;
  readonly #headLimit: number;
  readonly #tailLimit: number;
  readonly #head: Buffer[] = [];
  #headSize = 0;
  #tail: Buffer[] = [];
  #tailSize = 0;

  constructor(limit: number) {
    this.#headLimit = Math.ceil(limit / 2);
    this.#tailLimit = limit - this.#headLimit;
  }

  /** How many bytes were written in all. */
  get size(): number {
    return this.#size;
  }

  /** How many bytes are in neither the kept beginning nor the kept end. */
  get omitted(): number {
    return Math.max(0, this.#size - this.#headLimit - this.#tailLimit);
  }

  write(chunk: Buffer): void {
    this.#size += chunk.length;
    const forHead = chunk.subarray(0, this.#headLimit - this.#headSize);
    if (forHead.length > 0) this.#head.push(Buffer.from(forHead));
    this.#headSize += forHead.length;
    const rest = chunk.subarray(forHead.length);
    if (rest.length === 0) return;
    this.#tail.push(rest);
    this.#tailSize += rest.length;
    if (this.#tailSize > this.#tailLimit * 2) this.#compact();
  }

  /** The text, with a line in the middle that says how much was left out. */
  toString(): string {
    this.#compact();
    const head = Buffer.concat(this.#head);
    const tail = Buffer.concat(this.#tail);
    if (this.omitted === 0) return Buffer.concat([head, tail]).toString("utf8");
    const note = `[… ${this.omitted.toLocaleString("en-US")} of ${this.#size.toLocaleString("en-US")} bytes left out …]`;
    return `${withoutCutEnd(head).toString("utf8")}\n${note}\n${withoutCutStart(tail).toString("utf8")}`;
  }

  #compact(): void {
    if (this.#tailSize <= this.#tailLimit) return;
    const whole = Buffer.concat(this.#tail);
    // A copy, so that the chunks it came from can be collected.
    const kept = Buffer.from(whole.subarray(whole.length - this.#tailLimit));
    this.#tail = [kept];
    this.#tailSize = kept.length;
  }
}

/** Drops the bytes of a character that continues after the cut. */
function withoutCutEnd(bytes: Buffer): Buffer {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!;
    if (isContinuation(byte)) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? bytes.subarray(0, bytes.length - back) : bytes;
  }
  return bytes;
}

/** Drops the bytes of a character that began before the cut. */
function withoutCutStart(bytes: Buffer): Buffer {
  let start = 0;
  while (start < 3 && start < bytes.length && isContinuation(bytes[start]!)) start++;
  return bytes.subarray(start);
}

function isContinuation(byte: number): boolean {
  return (byte & 0b1100_0000) === 0b1000_0000;
}
