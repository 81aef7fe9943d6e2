import { type Node, type ParseError, parseTree, printParseErrorCode } from "jsonc-parser";

/**
 * JSON as people write it in the files of editors: with comments and with commas before a closing bracket. Throws
 * `SyntaxError` with the line of the mistake.
 */
export function parseJsonc(text: string): unknown {
  return plainValue(parseJsoncTree(text));
}

/** The same with the place of every value in the text. */
export function parseJsoncTree(text: string): Node {
  const errors: ParseError[] = [];
  // A byte order mark is no part of the JSON; a blank keeps every place where it is.
  const plain = text.replace(/^\uFEFF/, " ");
  const root = parseTree(plain, errors, { allowTrailingComma: true });
  const [first] = errors;
  if (root !== undefined && first === undefined) return root;
  const line = plain.slice(0, first?.offset).split("\n").length;
  const reason = first === undefined ? "EmptyText" : printParseErrorCode(first.error);
  const words = reason.replace(/(?<=[a-z])[A-Z]/g, (letter) => ` ${letter}`).toLowerCase();
  throw new SyntaxError(`line ${line}: this is no JSON (${words})`);
}

/** The library's own way would take a key `__proto__` for the prototype and leave it out. */
function plainValue({ type, children = [], value }: Node): unknown {
  if (type === "array") return children.map(plainValue);
  if (type !== "object") return value;
  const members = children.flatMap(({ children: [key, member] = [] }) =>
    key === undefined || member === undefined ? [] : [[key.value, plainValue(member)]],
  );
  return Object.fromEntries(members);
}
