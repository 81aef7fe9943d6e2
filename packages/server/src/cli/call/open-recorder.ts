import type { CallRecorder } from "../../calls/recorder.ts";
import type { App } from "../../index.ts";
import type { Cli } from "../cli.ts";
import { talkingLogger } from "../with-app.ts";

/**
 * Keeps the calls of this process in the workspace's store, beside those of the server. Without a store the call is
 * made all the same, and it is said that only the log has it.
 */
export async function openRecorder(cli: Cli, app: App): Promise<CallRecorder | undefined> {
  try {
    const [store, { CallRecorder }] = await Promise.all([app.store(), import("../../calls/recorder.ts")]);
    return new CallRecorder(app.registry, store.calls, talkingLogger(cli));
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    cli.talk(`warning: the call is kept in ${app.log.file} only. ${reason}`);
    return undefined;
  }
}
