import { shallowRef, watch } from "vue";
import { request } from "./request.ts";
import { currentSession } from "./session.ts";
import type { ServerInfo } from "./types.ts";

const info = shallowRef<ServerInfo>();
let isAsked = false;

/** What the server says of itself, read once for all that want to know. Only an admin is told; others see nothing. */
export function useServerInfo(): typeof info {
  if (!isAsked) {
    isAsked = true;
    request<ServerInfo>("/api/server").then(
      (answer) => {
        info.value = answer;
      },
      () => {
        isAsked = false;
      },
    );
  }
  return info;
}

watch(
  () => currentSession.token,
  () => {
    info.value = undefined;
    isAsked = false;
  },
);
