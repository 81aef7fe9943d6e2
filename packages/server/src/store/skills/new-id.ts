import { parse, v7 } from "uuid";

/** Base-36 digits of the number; enough until the year 2500. */
const DIGITS = 24;

/**
 * A new id for a row that people and models may see: a UUID of version 7 in lower-case letters and digits, so that it
 * can be a tool's name with every provider, grows with time, and begins with a letter.
 */
export function newId(): string {
  const number = BigInt(`0x${Buffer.from(parse(v7())).toString("hex")}`);
  return `t${number.toString(36).padStart(DIGITS, "0")}`;
}
