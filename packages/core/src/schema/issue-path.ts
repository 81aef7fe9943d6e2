const identifier = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

/** A path as people write it: `items[0].name`, `headers["x-id"]`; empty for the value itself. */
export function issuePath(segments: readonly unknown[]): string {
  let path = "";
  for (const segment of segments) path += step(segment, path === "");
  return path;
}

function step(segment: unknown, isFirst: boolean): string {
  if (typeof segment === "number") return `[${segment}]`;
  const key = String(segment);
  if (!identifier.test(key)) return `[${JSON.stringify(key)}]`;
  return isFirst ? key : `.${key}`;
}
