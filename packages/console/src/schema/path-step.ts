const identifier = /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u;

/** A path one step longer, written the way the server names places in its issues: `items[0].name`, `headers["x-id"]`. */
export function pathStep(path: string, step: string | number): string {
  if (typeof step === "number") return `${path}[${step}]`;
  if (!identifier.test(step)) return `${path}[${JSON.stringify(step)}]`;
  return path === "" ? step : `${path}.${step}`;
}
