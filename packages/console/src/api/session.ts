import { reactive, readonly } from "vue";
import { keep, kept } from "../text/kept.ts";

const KEY = "toolrack.token";

interface Session {
  token: string | undefined;
  /** Why the sign-in page is shown. */
  refusal: "missing" | "rejected" | undefined;
}

const session = reactive<Session>({ token: undefined, refusal: undefined });

/** Who the console is to the server. */
export const currentSession = readonly(session);

/**
 * Takes the token that the printed address carries behind `#token=`, and removes it from the address bar: what is
 * behind `#` never reaches a server, but it would stay in the history and be shared with a link.
 */
export function openSession(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null && given !== "") {
    keep(KEY, given);
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  session.token = given || kept(KEY) || undefined;
  session.refusal = session.token === undefined ? "missing" : undefined;
}

export function signIn(token: string): void {
  keep(KEY, token);
  session.token = token;
  session.refusal = undefined;
}

export function signOut(refusal: "missing" | "rejected" = "missing"): void {
  keep(KEY, undefined);
  session.token = undefined;
  session.refusal = refusal;
}
