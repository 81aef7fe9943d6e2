import type { Logger } from "@toolrack/core";
import { type ApprovalInbox, type Calls, metaToolSettings, runToolName } from "../calls/index.ts";
import { CodeRuns, runTool } from "../code/index.ts";
import type { Config } from "../config/index.ts";
import { reasonOf } from "../helpers/index.ts";
import type { Store } from "../store/index.ts";
import type { App } from "./app.ts";

export interface OpenCodeParts {
  readonly app: Pick<App, "registry" | "config" | "skills" | "book" | "sandbox">;
  readonly store: Store;
  readonly approvals: ApprovalInbox;
  readonly calls: Calls;
  readonly logger: Logger;
}

export function isCodeOff({ code }: Config): boolean {
  return code?.mode === "off";
}

/** Puts the tool that runs code on the rack, unless the config says otherwise. */
export function openCode({ app, store, approvals, calls, logger }: OpenCodeParts): CodeRuns | undefined {
  const { registry, config, skills, book } = app;
  if (isCodeOff(config)) return undefined;
  const runs = new CodeRuns(registry, {
    store,
    approvals,
    book,
    logger,
    calls: () => calls,
    expertOf: (name) => skills.experts.find(name)?.allows,
  });
  const put = (offered: Parameters<typeof runTool>[1]) =>
    registry.apply({
      remove: [runToolName],
      put: [runTool({ registry, sandbox: app.sandbox, runs }, offered)],
    });
  if (config.code?.mode === "on") put("always");
  else {
    put("never");
    offerForMany(app, () => put("many"), logger);
  }
  return runs;
}

/** Calls `offer` as soon as the rack has so many tools that models are not shown all, if the sandbox has level 3. */
function offerForMany(
  { registry, config, sandbox }: OpenCodeParts["app"],
  offer: () => void,
  logger: Logger,
): void {
  const { mode, threshold } = metaToolSettings(config.mcp);
  if (mode === "off") return;
  const isMany = () => mode === "on" || registry.list().length > threshold;
  let stop = () => {};
  const look = () => {
    if (!isMany()) return;
    stop();
    sandbox().then(
      ({ level }) => {
        if (level === 3) offer();
      },
      (error) => logger.debug(`Code is not offered, because the sandbox cannot be had: ${reasonOf(error)}`),
    );
  };
  stop = registry.subscribe(look, ["tools"]);
  look();
}

/** Puts the tool that runs code on a workspace that no server serves. Its runs end with the process. */
export function addRunTool({ registry, sandbox }: Pick<App, "registry" | "sandbox">): void {
  const runs = new CodeRuns(registry);
  registry.apply({ put: [runTool({ registry, sandbox, runs }, "never")] });
}
