/**
 * The values of a template's variables in a URI that fits it, decoded; undefined when it does not fit. `{name}` stands
 * for one segment, `{+name}` for any number of them: what resource templates are written with.
 */
export function matchUriTemplate(template: string, uri: string): Record<string, string> | undefined {
  const names: string[] = [];
  const pattern = template.replaceAll(/\{(\+?)([^{}]+)\}|[^{]+|\{/g, (part, plus?: string, name?: string) => {
    if (name === undefined) return part.replaceAll(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
    names.push(name);
    return plus === "+" ? "(.+)" : "([^/?#]+)";
  });
  const found = new RegExp(`^${pattern}$`).exec(uri);
  if (found === null) return undefined;
  return Object.fromEntries(names.map((name, index) => [name, decode(found[index + 1]!)]));
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
