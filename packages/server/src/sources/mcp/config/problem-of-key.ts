/** What a person can type and read in one line, as other programs let them: names of tools are made of it all the same. */
const validKey = /^(?=.{1,100}$)[\p{L}\p{N}@](?:[\p{L}\p{M}\p{N} _.@/:+()-]*[\p{L}\p{M}\p{N}_.@/:+()-])?$/u;

/** Why a text cannot be the key of a server; undefined when it can. */
export function problemOfKey(key: string): string | undefined {
  if (validKey.test(key)) return undefined;
  return `"${key.slice(0, 100)}" cannot be the key of a server. Use letters, digits, spaces and _ . - @ / : + ( ), at most 100, with a letter, a digit or @ first.`;
}
