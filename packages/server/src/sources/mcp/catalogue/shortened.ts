const LONGEST = 400;

/** A message may name a place in a schema of a server, which may be as long as the server likes. */
export function shortened(message: string): string {
  if (message.length <= LONGEST) return message;
  const half = LONGEST / 2;
  return `${message.slice(0, half)} … ${message.slice(-half)}`;
}
