import { closeSync, existsSync, fstatSync, openSync, readSync } from "node:fs";
import { isPageSize, readWriteAheadLog } from "./write-ahead-log.ts";

export type SqlValue = null | number | bigint | string | Uint8Array;

export interface PageRow {
  readonly rowid: number | bigint;
  readonly values: readonly SqlValue[];
}

export interface ReadTable {
  readonly rows: Iterable<PageRow>;
  /** How many rows could not be read. Final once all `rows` have been read. */
  readonly lost: () => number;
}

const TABLE_LEAF = 0x0d;
const TABLE_INTERIOR = 0x05;
const FILE_HEADER = 100;
/** Kinds of entries in the page map of a database with `auto_vacuum`. */
const ROOT = 1;
const BRANCH = 5;
const DEFAULT_PAGE_SIZE = 4096;
/** No tree of pages is deeper; a damaged one may have a cycle. */
const DEEPEST = 64;

/**
 * Reads the rows of a SQLite file page by page, without SQLite, which gives up a whole table when a page near its root
 * is damaged although the pages with the rows are whole. The page map tells which table such a page belongs to. Never
 * reads free pages, so that deleted rows do not come back.
 */
export class DatabasePages implements Disposable {
  readonly #file: number;
  readonly #log: number | undefined;
  readonly #logged: ReadonlyMap<number, number>;
  readonly #pageSize: number;
  readonly #usable: number;
  readonly #hasMap: boolean;
  readonly #count: number;

  constructor(path: string) {
    this.#file = openSync(path, "r");
    const wal = `${path}-wal`;
    const hasLog = existsSync(wal);
    this.#log = hasLog ? openSync(wal, "r") : undefined;
    this.#logged = hasLog ? readWriteAheadLog(wal).pages : new Map();
    const head = Buffer.alloc(FILE_HEADER);
    readSync(this.#file, head, 0, FILE_HEADER, 0);
    const said = head.readUInt16BE(16) === 1 ? 65_536 : head.readUInt16BE(16);
    const isHead = head.subarray(0, 15).toString("latin1") === "SQLite format 3" && isPageSize(said);
    // Without a header, the file is read with the settings of our own databases.
    this.#pageSize = isHead ? said : DEFAULT_PAGE_SIZE;
    this.#usable = this.#pageSize - (isHead ? head.readUInt8(20) : 0);
    this.#hasMap = isHead ? head.readUInt32BE(52) > 0 : true;
    const { size } = fstatSync(this.#file);
    this.#count = Math.max(Math.ceil(size / this.#pageSize), ...this.#logged.keys());
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
    if (this.#log !== undefined) closeSync(this.#log);
  }

  /** The root page and `create` statement of every table by name; undefined when they cannot be read. */
  schema(): Map<string, { readonly root: number; readonly sql: string }> | undefined {
    const tables = new Map<string, { root: number; sql: string }>();
    const { rows, lost } = this.table(1);
    for (const { values } of rows) {
      const [type, name, , root, sql] = values;
      if (type !== "table" || typeof name !== "string" || typeof sql !== "string") continue;
      tables.set(name, { root: Number(root), sql });
    }
    return lost() > 0 || tables.size === 0 ? undefined : tables;
  }

  /**
   * The rows of the table with this root page. `columns`: the number of its columns, if no other table has as many;
   * then pages without an owner in the map are recognized by it.
   */
  table(root: number, columns?: number): ReadTable {
    let lost = 0;
    const lose = (count: number) => {
      lost += count;
    };
    return { rows: this.#rowsOf(root, columns, lose), lost: () => lost };
  }

  *#rowsOf(root: number, columns: number | undefined, lose: (count: number) => void): Generator<PageRow> {
    for (const number of this.#leavesOf(root, columns, lose)) {
      const page = this.#page(number);
      if (page === undefined) continue;
      for (const cell of cellsOf(page, number)) {
        const row = this.#readCell(page, cell);
        if (row === undefined) lose(1);
        else yield row;
      }
    }
  }

  /** Finds the leaf pages in the tree, and in the page map where the tree is broken. */
  #leavesOf(root: number, columns: number | undefined, lose: (count: number) => void): Set<number> {
    const leaves = new Set<number>();
    const seen = new Set<number>();
    const broken: number[] = [];
    const visit = (number: number, depth: number) => {
      if (seen.has(number) || depth > DEEPEST) return;
      seen.add(number);
      const page = this.#page(number);
      const kind = page && kindOf(page, number);
      if (kind === TABLE_LEAF) leaves.add(number);
      else if (page !== undefined && kind === TABLE_INTERIOR) {
        for (const child of childrenOf(page, number)) visit(child, depth + 1);
      } else broken.push(number);
    };
    visit(root, 0);
    if (broken.length === 0) return leaves;
    if (this.#hasMap) {
      for (let number = 2; number <= this.#count; number++) {
        if (seen.has(number)) continue;
        const owner = this.#rootOf(number);
        if (owner !== root && (owner !== "unknown" || columns === undefined)) continue;
        const page = this.#page(number);
        if (page === undefined || kindOf(page, number) !== TABLE_LEAF) continue;
        if (owner === root || this.#widthOf(page, number) === columns) leaves.add(number);
      }
    }
    // An unreadable page held at least one row.
    lose(broken.length);
    return leaves;
  }

  /** How many values the first row of the page has. */
  #widthOf(page: Buffer, number: number): number | undefined {
    const [first] = cellsOf(page, number);
    return first === undefined ? undefined : this.#readCell(page, first)?.values.length;
  }

  /**
   * The root of the page's tree, by the page map. `unknown`: that part of the map is lost. Undefined: the page is free
   * or has another use.
   */
  #rootOf(number: number): number | "unknown" | undefined {
    for (let at = number, depth = 0; depth < DEEPEST; depth++) {
      const { kind, parent } = this.#mapped(at) ?? {};
      if (kind === ROOT) return at;
      if (kind !== BRANCH || parent === undefined || parent < 1) return at === number ? undefined : "unknown";
      // Page 1, the root of the schema table, has no entry in the map.
      if (parent === 1) return 1;
      at = parent;
    }
    return "unknown";
  }

  #mapped(number: number): { kind: number; parent: number } | undefined {
    const entries = Math.floor(this.#usable / 5);
    const map = Math.floor((number - 2) / (entries + 1)) * (entries + 1) + 2;
    if (number < 2 || number === map) return undefined;
    const page = this.#page(map);
    const at = (number - map - 1) * 5;
    return page && { kind: page.readUInt8(at), parent: page.readUInt32BE(at + 1) };
  }

  #page(number: number): Buffer | undefined {
    const page = Buffer.alloc(this.#pageSize);
    const logged = this.#logged.get(number);
    const read =
      logged === undefined || this.#log === undefined
        ? readSync(this.#file, page, 0, page.length, (number - 1) * this.#pageSize)
        : readSync(this.#log, page, 0, page.length, logged);
    return read === page.length ? page : undefined;
  }

  #readCell(page: Buffer, at: number): PageRow | undefined {
    try {
      const cell = new Reader(page, at);
      const length = Number(cell.varint());
      const rowid = plain(cell.varint());
      const payload = this.#payload(page, cell.at, length);
      return payload && { rowid, values: valuesOf(payload) };
    } catch {
      return undefined; // The cell points outside of its page, or is not a record.
    }
  }

  /** A long record continues in overflow pages, each of which names the next. */
  #payload(page: Buffer, at: number, length: number): Buffer | undefined {
    const most = this.#usable - 35;
    if (length <= most) return at + length <= page.length ? page.subarray(at, at + length) : undefined;
    const least = Math.floor(((this.#usable - 12) * 32) / 255) - 23;
    const wanted = least + ((length - least) % (this.#usable - 4));
    const here = wanted <= most ? wanted : least;
    const pieces = [page.subarray(at, at + here)];
    let rest = length - here;
    for (let next = page.readUInt32BE(at + here); rest > 0; ) {
      const more = next < 2 || next > this.#count ? undefined : this.#page(next);
      if (more === undefined) return undefined;
      pieces.push(more.subarray(4, 4 + Math.min(rest, this.#usable - 4)));
      rest -= this.#usable - 4;
      next = more.readUInt32BE(0);
    }
    return Buffer.concat(pieces);
  }
}

function headOf(number: number): number {
  return number === 1 ? FILE_HEADER : 0;
}

/** Whether the page is a leaf or an inner page of a table; undefined for any other or damaged page. */
function kindOf(page: Buffer, number: number): number | undefined {
  const head = headOf(number);
  const kind = page[head];
  if (kind !== TABLE_LEAF && kind !== TABLE_INTERIOR) return undefined;
  const cells = cellsOf(page, number);
  const count = page.readUInt16BE(head + 3);
  const content = page.readUInt16BE(head + 5) || 65_536;
  const isWhole = cells.length === count && cells.every((at) => at >= content && at < page.length);
  return isWhole ? kind : undefined;
}

/** Where the cells of the page begin. */
function cellsOf(page: Buffer, number: number): number[] {
  const head = headOf(number);
  const first = head + (page[head] === TABLE_LEAF ? 8 : 12);
  const count = Math.min(page.readUInt16BE(head + 3), Math.floor((page.length - first) / 2));
  return Array.from({ length: count }, (_, at) => page.readUInt16BE(first + at * 2));
}

function childrenOf(page: Buffer, number: number): number[] {
  const children = cellsOf(page, number).map((at) => (at + 4 <= page.length ? page.readUInt32BE(at) : 0));
  return [...children, page.readUInt32BE(headOf(number) + 8)];
}

/** Throws when the bytes are not a record. */
function valuesOf(payload: Buffer): SqlValue[] {
  const head = new Reader(payload, 0);
  const end = Number(head.varint());
  const types: number[] = [];
  while (head.at < end) types.push(Number(head.varint()));
  const body = new Reader(payload, end);
  const values = types.map((type) => body.value(type));
  if (head.at !== end || body.at !== payload.length) throw new RangeError("The record has another length.");
  return values;
}

class Reader {
  readonly #bytes: Buffer;
  at: number;

  constructor(bytes: Buffer, at: number) {
    this.#bytes = bytes;
    this.at = at;
  }

  /** Seven bits of each byte, all eight of the ninth. */
  varint(): bigint {
    let value = 0n;
    for (let count = 1; ; count++) {
      const byte = this.#bytes.readUInt8(this.at++);
      if (count === 9) return BigInt.asIntN(64, (value << 8n) | BigInt(byte));
      value = (value << 7n) | BigInt(byte & 0x7f);
      if (byte < 0x80) return value;
    }
  }

  value(type: number): SqlValue {
    if (type === 0) return null;
    if (type <= 6) return this.#integer([0, 1, 2, 3, 4, 6, 8][type]!);
    if (type === 7) return this.#take(8).readDoubleBE(0);
    if (type === 8 || type === 9) return type - 8;
    if (type < 12) throw new RangeError("There is no such type.");
    const bytes = this.#take((type - (type % 2 === 0 ? 12 : 13)) / 2);
    return type % 2 === 0 ? new Uint8Array(bytes) : bytes.toString("utf8");
  }

  #integer(length: number): number | bigint {
    if (length <= 6) return this.#take(length).readIntBE(0, length);
    return plain(this.#take(8).readBigInt64BE(0));
  }

  #take(length: number): Buffer {
    const end = this.at + length;
    if (end > this.#bytes.length) throw new RangeError("The record ends before.");
    const bytes = this.#bytes.subarray(this.at, end);
    this.at = end;
    return bytes;
  }
}

function plain(value: bigint): number | bigint {
  return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
}
