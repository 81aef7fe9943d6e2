import { reactive, watch } from "vue";
import { currentSession } from "../../api/session.ts";

const owners = reactive(new Set<string>());

/** Whether the server has refused what this token says in conversations of that owner. */
export function isClosedTo(owner: string): boolean {
  return owners.has(owner);
}

/** The server does not say who a token is, so what it refused once is remembered. */
export function rememberClosed(owner: string): void {
  owners.add(owner);
}

// Another token may be the owner.
watch(
  () => currentSession.token,
  () => owners.clear(),
  { flush: "sync" },
);
