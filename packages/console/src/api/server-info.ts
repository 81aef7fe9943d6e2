import { effectScope, type ShallowRef, watch } from "vue";
import { type Remote, useRemote } from "../ui/use-remote.ts";
import { request } from "./request.ts";
import { currentSession } from "./session.ts";
import type { ServerInfo } from "./types.ts";

let remote: Remote<ServerInfo> | undefined;

/** What the server says of itself, read once for all that want to know. Only an admin is told; others see nothing. */
export function useServerInfo(): ShallowRef<ServerInfo | undefined> {
  remote ??= readOnce();
  return remote.value;
}

function readOnce(): Remote<ServerInfo> {
  // It outlives the page that asked first.
  const info = effectScope(true).run(() =>
    useRemote((signal) => request<ServerInfo>("/api/server", { signal })),
  )!;
  void info.reload();
  return info;
}

watch(
  () => currentSession.token,
  () => {
    if (remote !== undefined) remote.value.value = undefined;
  },
);
