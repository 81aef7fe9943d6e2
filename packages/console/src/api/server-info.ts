import { shallowRef, watch } from "vue";
import { request } from "./request.ts";
import { currentSession } from "./session.ts";
import type { ServerInfo } from "./types.ts";

const info = shallowRef<ServerInfo>();
let asked: Promise<void> | undefined;

/** What the server says of itself, read once for all that want to know. Only an admin is told; others see nothing. */
export function useServerInfo(): typeof info {
  asked ??= request<ServerInfo>("/api/server").then(
    (answer) => {
      info.value = answer;
    },
    () => {
      asked = undefined;
    },
  );
  return info;
}

watch(
  () => currentSession.token,
  () => {
    info.value = undefined;
    asked = undefined;
  },
);
