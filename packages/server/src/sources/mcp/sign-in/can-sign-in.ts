import { isSecretName } from "../config/is-secret-name.ts";
import { isSecretParameter } from "../config/is-secret-parameter.ts";
import { isLocal, type ServerEntry } from "../config/server-entry.ts";

/**
 * Whether the rack may sign in at a server: one that is sent credentials of its entry has what it needs. Where both are
 * wanted, such as the key of a gateway and the tokens of the server behind it, the entry says so with `toolrack.oauth`.
 */
export function canSignIn(entry: ServerEntry): boolean {
  if (isLocal(entry) || sendsAuthorization(entry)) return false;
  return entry.toolrack?.oauth !== undefined || !sendsKey(entry);
}

/** The header that tokens would be sent in is taken. */
function sendsAuthorization({ url = "", headers = {} }: ServerEntry): boolean {
  const isNamed = /^[^/?#]*:\/\/[^/?#]*@/.test(url);
  return isNamed || Object.keys(headers).some((name) => /^authorization$/i.test(name));
}

/** Only what is certainly a credential: the number of a tenant may look like one, and beside it people sign in. */
function sendsKey({ url = "", headers = {} }: ServerEntry): boolean {
  const [, query = ""] = /\?([^#]*)/.exec(url) ?? [];
  return (
    isSecret(url) ||
    [...new URLSearchParams(query).keys()].some(isSecretParameter) ||
    Object.entries(headers).some(([name, value]) => isSecretName(name) || isSecret(value))
  );
}

function isSecret(text: string): boolean {
  return text.includes("${secret:");
}
