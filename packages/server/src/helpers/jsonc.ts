import { type Node, type ParseError, parseTree, printParseErrorCode } from "jsonc-parser";

/** Parses JSON with comments and trailing commas. Throws `SyntaxError` with the line of the mistake. */
export function parseJsonc(text: string): unknown {
  return plainValue(parseJsoncTree(text));
}

/** Like `parseJsonc`, but returns a tree with the position of every value. */
export function parseJsoncTree(text: string): Node {
  const errors: ParseError[] = [];
  // Replaces a byte order mark by a blank, so that positions stay right.
  const plain = text.replace(/^\uFEFF/, " ");
  const root = parseTree(plain, errors, { allowTrailingComma: true });
  const [first] = errors;
  if (root !== undefined && first === undefined) return root;
  const line = plain.slice(0, first?.offset).split("\n").length;
  const reason = first === undefined ? "EmptyText" : printParseErrorCode(first.error);
  const words = reason.replace(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter}`).toLowerCase();
  throw new SyntaxError(`line ${line}: this is no JSON (${words})`);
}

/** The library's own conversion would set the prototype for a key `__proto__`. */
function plainValue({ type, children = [], value }: Node): unknown {
  if (type === "array") return children.map(plainValue);
  if (type !== "object") return value;
  const members = children.flatMap(({ children: [key, member] = [] }) =>
    key === undefined || member === undefined ? [] : [[key.value, plainValue(member)]],
  );
  return Object.fromEntries(members);
}
