/** What the HTTP client itself decides; a caller's value could smuggle a second request or another host. */
const ownedByClient = new Set([
  "connection",
  "content-length",
  "expect",
  "host",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

const secretName = /authorization|cookie|api-?key|token|secret|password|credential|signature/;

/** Header names in lower case. Refuses those that belong to the client. */
export function requestHeaders(given: Readonly<Record<string, string>> = {}): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
    const key = name.toLowerCase();
    if (ownedByClient.has(key)) {
      throw new Error(`The header "${name}" is set by the client itself. Leave it out.`);
    }
    headers[key] = value;
  }
  return headers;
}

/** The headers that may follow a redirect to another origin. */
export function withoutSecrets(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !secretName.test(name)));
}

/** The headers for a request that has lost its body on the way. */
export function withoutBodyHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith("content-")));
}

/** Response headers as one value per name. Cookies keep their names and lose their values. */
export function shownHeaders(headers: NodeJS.Dict<string | string[]>): Record<string, string> {
  const shown: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined) continue;
    const values = Array.isArray(value) ? value : [value];
    shown[name] = values.map((one) => (name === "set-cookie" ? maskCookie(one) : one)).join(", ");
  }
  return shown;
}

function maskCookie(cookie: string): string {
  return cookie.replace(/^([^=;]*)=?[^;]*/, "$1=[hidden]");
}
