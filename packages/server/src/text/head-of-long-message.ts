/** What is short in a message of JSON-RPC. A request has both, a notification only a method, an answer only an id. */
export interface MessageHead {
  readonly id?: string | number;
  readonly method?: string;
}

const TEXT = String.raw`"(?:[^"\\]|\\.)*"`;
const MEMBER = String.raw`\s*(?:"(?:jsonrpc|method)"\s*:\s*${TEXT}|"id"\s*:\s*(?:${TEXT}|-?\d+))\s*`;
const FIRST = new RegExp(`^\\s*\\{((?:${MEMBER},)+)`);
const LAST = new RegExp(`((?:,${MEMBER})+)\\}\\s*$`);

/**
 * Of a message that was too long to be kept, from its beginning and its end: whoever writes one puts what is short before
 * or after what is long. Empty where it cannot be told.
 */
export function headOfLongMessage(start: string, end: string): MessageHead {
  const first = FIRST.exec(start)?.[1]?.slice(0, -1) ?? "";
  const last = LAST.exec(end)?.[1]?.slice(1) ?? "";
  const members = [first, last].filter((text) => text !== "").join(",");
  try {
    // Nothing but members of these types was let in above.
    return JSON.parse(`{${members}}`) as MessageHead;
  } catch {
    return {};
  }
}
