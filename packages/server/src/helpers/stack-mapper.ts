import { SourceMap } from "node:module";

const LONGEST_LINE = 2_000;

/** Maps stack traces of compiled files to their sources. */
export class StackMapper {
  readonly #texts = new Map<string, { readonly map: string; readonly source: string }>();
  readonly #maps = new Map<string, SourceMap | undefined>();

  /** `source`: the path that traces shall show, when the code is run under another one. */
  add(path: string, map: string, source = path): void {
    this.#texts.set(path, { map, source });
    this.#maps.delete(path);
  }

  remove(path: string): void {
    this.#texts.delete(path);
    this.#maps.delete(path);
  }

  /** Rewrites the stack of an error in place, once. Anything else passes unchanged. */
  apply<Thrown>(thrown: Thrown): Thrown {
    try {
      if (!(thrown instanceof Error) || typeof thrown.stack !== "string" || mapped.has(thrown)) return thrown;
      mapped.add(thrown);
      thrown.stack = thrown.stack
        .split("\n")
        .map((text) => this.#mappedLine(text))
        .join("\n");
    } catch {
      // A stack that cannot be read or set stays as it is.
    }
    return thrown;
  }

  /** A line longer than LONGEST_LINE is part of a message; searching it for positions could take long. */
  #mappedLine(text: string): string {
    if (text.length > LONGEST_LINE) return text;
    return text.replace(
      /(\/[^():\n]+):(\d+):(\d+)/g,
      (whole, path, line, column) => this.#position(path, Number(line), Number(column)) ?? whole,
    );
  }

  /** The first line number of this file in the error's stack. */
  lineOf(thrown: unknown, path: string): number | undefined {
    this.apply(thrown);
    const stack = thrown instanceof Error ? String(thrown.stack) : "";
    const at = stack.indexOf(`${path}:`);
    return at === -1 ? undefined : Number.parseInt(stack.slice(at + path.length + 1), 10) || undefined;
  }

  #position(path: string, line: number, column: number): string | undefined {
    const entry = this.#mapOf(path)?.findEntry(line - 1, column - 1);
    if (entry === undefined || !("originalLine" in entry)) return undefined;
    return `${this.#texts.get(path)?.source}:${entry.originalLine + 1}:${entry.originalColumn + 1}`;
  }

  #mapOf(path: string): SourceMap | undefined {
    const known = this.#texts.get(path);
    if (known === undefined) return undefined;
    if (!this.#maps.has(path)) this.#maps.set(path, new SourceMap(JSON.parse(known.map)));
    return this.#maps.get(path);
  }
}

const mapped = new WeakSet<object>();
