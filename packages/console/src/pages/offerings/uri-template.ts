/** An expression of a URI template (RFC 6570), such as `{id}`, `{+path}` or `{?page,size}`. */
const expression = /\{([+#./;?&]?)([^{}]+)\}/g;

/** The names of the variables in a URI template, each once. */
export function variablesOf(template: string): string[] {
  const names = [...template.matchAll(expression)].flatMap(([, , list = ""]) => list.split(",").map(nameOf));
  return [...new Set(names)];
}

/** The URI with these values. A variable without a value is left out. */
export function fillTemplate(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(expression, (_, sign: string, list: string) => {
    const isNamed = sign === "?" || sign === "&" || sign === ";";
    const keepsSigns = sign === "+" || sign === "#";
    const parts = list.split(",").flatMap((item) => {
      const name = nameOf(item);
      const value = values[name] ?? "";
      if (value === "") return [];
      const written = keepsSigns ? encodeURI(value) : encodeURIComponent(value);
      return [isNamed ? `${name}=${written}` : written];
    });
    if (parts.length === 0) return "";
    const between = sign === "?" ? "&" : sign === "" || keepsSigns ? "," : sign;
    return (sign === "+" ? "" : sign) + parts.join(between);
  });
}

/** Without the modifiers for lists (`*`) and for length (`:3`). */
function nameOf(item: string): string {
  return item.trim().replace(/(\*|:\d+)$/, "");
}
