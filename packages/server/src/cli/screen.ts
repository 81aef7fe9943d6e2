import { Writable } from "node:stream";

/** Standard error for what draws on it: of a known width, also on terminals that say 0. */
export function screen(isShown: () => boolean = () => true): Writable {
  const write = (chunk: unknown, _encoding: unknown, done: () => void) => {
    if (isShown()) process.stderr.write(String(chunk));
    done();
  };
  return Object.defineProperties(new Writable({ write, decodeStrings: false }), {
    columns: { get: () => process.stderr.columns || 80 },
    rows: { get: () => process.stderr.rows || 24 },
  });
}
