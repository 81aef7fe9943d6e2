import { shellQuote } from "../../text/shell-quote.ts";

/** What a person types to do something with a server; the key and what follows it may have spaces. */
export function commandFor(action: string, ...words: readonly string[]): string {
  return ["toolrack mcp-servers", action, ...words.map(shellQuote)].join(" ");
}
