/** Where a value stands in the text, and where the members of an object do. */
export interface JsonNode {
  readonly start: number;
  readonly end: number;
  /** Of an object, in their order. */
  readonly members?: readonly JsonMember[];
}

export interface JsonMember {
  readonly key: string;
  /** Where the key begins. */
  readonly start: number;
  readonly value: JsonNode;
  /** Where the comma after it stands. */
  readonly comma?: number;
}

/**
 * The places of everything in JSON with comments and with commas before a closing bracket. Undefined when nothing but
 * comments is there. Throws `SyntaxError` with the line of the mistake.
 */
export function parseJsonTree(text: string): JsonNode | undefined {
  const reader = new Reader(text);
  reader.skip();
  if (reader.atEnd) return undefined;
  const root = reader.value();
  reader.skip();
  if (!reader.atEnd) throw reader.mistake();
  return root;
}

const scalar = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-])/y;

class Reader {
  readonly #text: string;
  #at: number;

  constructor(text: string) {
    this.#text = text;
    this.#at = text.startsWith("\uFEFF") ? 1 : 0;
  }

  get atEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  /** Over blanks and comments. */
  skip(): void {
    for (;;) {
      while (" \t\r\n".includes(this.#text[this.#at] ?? "x")) this.#at++;
      const opening = this.#text.slice(this.#at, this.#at + 2);
      if (opening === "//") this.#at = placeOr(this.#text.indexOf("\n", this.#at), this.#text.length);
      else if (opening === "/*") {
        const end = this.#text.indexOf("*/", this.#at + 2);
        if (end === -1) throw this.mistake();
        this.#at = end + 2;
      } else return;
    }
  }

  value(): JsonNode {
    const start = this.#at;
    switch (this.#text[start]) {
      case "{":
        return this.#object();
      case "[":
        return this.#array();
      case '"':
        this.#string();
        return { start, end: this.#at };
    }
    scalar.lastIndex = start;
    if (!scalar.test(this.#text)) throw this.mistake();
    this.#at = scalar.lastIndex;
    return { start, end: this.#at };
  }

  mistake(): SyntaxError {
    const line = this.#text.slice(0, this.#at).split("\n").length;
    return new SyntaxError(`line ${line}: this is no JSON`);
  }

  #object(): JsonNode {
    const start = this.#at;
    const members: JsonMember[] = [];
    this.#items("}", () => {
      const begin = this.#at;
      const key = this.#string();
      this.skip();
      this.#take(":");
      this.skip();
      const value = this.value();
      const comma = this.#comma();
      members.push({ key, start: begin, value, ...(comma === undefined ? {} : { comma }) });
      return comma !== undefined;
    });
    return { start, end: this.#at, members };
  }

  #array(): JsonNode {
    const start = this.#at;
    this.#items("]", () => {
      this.value();
      return this.#comma() !== undefined;
    });
    return { start, end: this.#at };
  }

  /** Reads items until the closing bracket. An item says whether a comma followed it, after which another may come. */
  #items(closing: string, item: () => boolean): void {
    this.#at++;
    this.skip();
    for (let isMore = true; this.#text[this.#at] !== closing; this.skip()) {
      if (!isMore) throw this.mistake();
      isMore = item();
    }
    this.#at++;
  }

  #comma(): number | undefined {
    this.skip();
    if (this.#text[this.#at] !== ",") return undefined;
    return this.#at++;
  }

  #string(): string {
    const start = this.#at;
    this.#take('"');
    while (this.#text[this.#at] !== '"') {
      const character = this.#text[this.#at];
      if (character === undefined || character === "\n") throw this.mistake();
      this.#at += character === "\\" ? 2 : 1;
    }
    this.#at++;
    try {
      return JSON.parse(this.#text.slice(start, this.#at));
    } catch {
      throw this.mistake();
    }
  }

  #take(character: string): void {
    if (this.#text[this.#at] !== character) throw this.mistake();
    this.#at++;
  }
}

function placeOr(found: number, otherwise: number): number {
  return found === -1 ? otherwise : found;
}
