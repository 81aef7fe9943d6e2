import { closeSync, fstatSync, openSync, readSync, writeSync } from "node:fs";

const LEAF = 0x0d;
const INNER = 0x05;
const INDEX_INNER = 0x02;
/** In the page map: the kind of a page that another page of its tree points to. */
const BRANCH = 5;
const DEEPEST = 20;
/** A file that was cut off may have had this many times the pages that are left of it. */
const LARGEST_CUT = 16;

/**
 * The pages of a SQLite file that nobody has open. SQLite gives up a whole table when an inner page of its tree is
 * damaged, although the pages with the rows are whole. A database with `auto_vacuum` has a map that names the parent of
 * every page, from which a lost inner page can be made again.
 */
export class PageTree implements Disposable {
  readonly #file: number;
  readonly #size: number;
  readonly #count: number;

  constructor(path: string) {
    this.#file = openSync(path, "r+");
    const head = Buffer.alloc(100);
    readSync(this.#file, head, 0, head.length, 0);
    const size = head.readUInt16BE(16) === 1 ? 65_536 : head.readUInt16BE(16);
    // A file whose beginning is lost has the page size of our databases.
    this.#size = size >= 512 && (size & (size - 1)) === 0 ? size : 4096;
    this.#count = Math.ceil(fstatSync(this.#file).size / this.#size);
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
  }

  /**
   * Clears the number of pages in the header, so that SQLite counts the pages of a file that may have been
   * cut off.
   */
  forgetCount(): void {
    writeSync(this.#file, Buffer.alloc(4), 0, 4, 28);
  }

  /** Copies the list of tables, which is the first page and the pages below it, from another database. */
  copySchema(from: PageTree): void {
    const visit = (number: number, head: number, depth: number) => {
      const page = from.#read(number);
      this.#write(number, page);
      if (page[head] !== INNER || depth === DEEPEST) return;
      for (const child of childrenOf(page, head)) visit(child, 0, depth + 1);
    };
    visit(1, 100, 0);
  }

  /** Rebuilds the lost inner pages. */
  mend(): void {
    const children = this.#childrenByParent();
    const mendPage = (number: number) => {
      const below = children.get(number);
      // A damaged map may have a cycle.
      children.delete(number);
      if (below === undefined || this.#isInner(number)) return;
      for (const child of below) mendPage(child);
      const page = this.#innerPage(below);
      if (page !== undefined) this.#write(number, page);
    };
    // A file that was cut off may lack inner pages behind its end. A damaged map may name any number.
    const last = this.#count * LARGEST_CUT;
    for (const number of [...children.keys()]) if (number > 1 && number <= last) mendPage(number);
  }

  #childrenByParent(): Map<number, number[]> {
    const children = new Map<number, number[]>();
    const hasMap = this.#read(1).readUInt32BE(52) > 0;
    const entries = Math.floor(this.#size / 5);
    for (let map = 2; hasMap && map <= this.#count; map += entries + 1) {
      const page = this.#read(map);
      for (let at = 0; at < entries; at++) {
        if (page[at * 5] !== BRANCH) continue;
        const parent = page.readUInt32BE(at * 5 + 1);
        const known = children.get(parent);
        if (known === undefined) children.set(parent, [map + 1 + at]);
        else known.push(map + 1 + at);
      }
    }
    return children;
  }

  #isInner(number: number): boolean {
    const page = this.#read(number);
    const isKnown = page[0] === INNER || page[0] === INDEX_INNER;
    return isKnown && page.readUInt16BE(3) < this.#size / 6;
  }

  /** A page that points to these pages of a table; undefined when none of them can be read. */
  #innerPage(numbers: readonly number[]): Buffer | undefined {
    const below = numbers
      .map((number) => ({ number, first: this.#firstRowid(number) }))
      .filter(({ first }) => !Number.isNaN(first))
      .sort((one, other) => one.first - other.first);
    const last = below.at(-1);
    if (last === undefined) return undefined;
    const page = Buffer.alloc(this.#size);
    let content = this.#size;
    for (const [at, { number }] of below.slice(0, -1).entries()) {
      const cell = Buffer.from([0, 0, 0, 0, ...toVarint(below[at + 1]!.first - 1)]);
      cell.writeUInt32BE(number);
      content -= cell.length;
      if (content < 12 + 2 * below.length) return undefined;
      cell.copy(page, content);
      page.writeUInt16BE(content, 12 + at * 2);
    }
    page.writeUInt8(INNER, 0);
    page.writeUInt16BE(below.length - 1, 3);
    page.writeUInt16BE(content & 0xffff, 5);
    page.writeUInt32BE(last.number, 8);
    return page;
  }

  /** The smallest row number in this part of a table; NaN when it cannot be read. */
  #firstRowid(number: number): number {
    try {
      let page = this.#read(number);
      for (let depth = 0; page[0] === INNER && depth < DEEPEST; depth++) {
        page = this.#read(childrenOf(page, 0)[0]!);
      }
      if (page[0] !== LEAF || page.readUInt16BE(3) === 0) return Number.NaN;
      let at = page.readUInt16BE(8);
      // A row begins with its length.
      while (page.readUInt8(at++) >= 0x80);
      let rowid = 0;
      for (let byte = 0x80; byte >= 0x80; rowid = rowid * 128 + (byte & 0x7f)) byte = page.readUInt8(at++);
      return rowid;
    } catch {
      return Number.NaN; // An offset points outside of the page.
    }
  }

  #read(number: number): Buffer {
    const page = Buffer.alloc(this.#size);
    readSync(this.#file, page, 0, page.length, (number - 1) * this.#size);
    return page;
  }

  #write(number: number, page: Buffer): void {
    writeSync(this.#file, page, 0, page.length, (number - 1) * this.#size);
  }
}

/** The pages that an inner page points to, in their order. `head`: where its own header begins. */
function childrenOf(page: Buffer, head: number): number[] {
  const cells = Array.from({ length: page.readUInt16BE(head + 3) }, (_, at) =>
    page.readUInt32BE(page.readUInt16BE(head + 12 + at * 2)),
  );
  return [...cells, page.readUInt32BE(head + 8)];
}

/**
 * A number as SQLite writes it: seven bits in each byte, and the eighth bit set in all bytes but the last.
 */
function toVarint(value: number): number[] {
  const bytes = [value % 128];
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) {
    bytes.unshift((rest % 128) + 128);
  }
  return bytes;
}
