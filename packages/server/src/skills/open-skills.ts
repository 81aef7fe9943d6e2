import { resolve } from "node:path";
import type { Logger, ToolRegistry } from "@toolrack/core";
import type { Config } from "../config/config.ts";
import type { Workspace } from "../config/workspace.ts";
import type { Offerings } from "../offerings/offerings.ts";
import type { Sandbox } from "../runners/sandbox/types.ts";
import type { Secrets } from "../secrets/open-secrets.ts";
import type { Store } from "../store/store.ts";
import { reachableRanges } from "./private-network.ts";
import { SkillLibrary } from "./skill-library.ts";
import { SkillOfferings } from "./skill-offerings.ts";

export interface SkillParts {
  readonly registry: ToolRegistry;
  readonly config: Config;
  readonly workspace: Workspace;
  /** Nothing when the workspace has none yet. */
  readonly store: Store | undefined;
  readonly sandbox: () => Promise<Sandbox>;
  readonly secrets: () => Promise<Secrets | undefined>;
  readonly offerings: Offerings;
  readonly logger: Logger;
}

/** Where a workspace has folders of skills; absolute. */
export function skillFoldersOf({ skills = {} }: Config, { directory }: Workspace): string[] {
  return (skills.folders ?? ["skills"]).map((folder) => resolve(directory, folder));
}

/** Hangs up the tools of a workspace's skills, and offers the skills themselves. */
export async function openSkills(parts: SkillParts): Promise<SkillLibrary> {
  const { registry, config, workspace, store, sandbox, secrets, offerings, logger } = parts;
  const library = new SkillLibrary({
    registry,
    ...(store === undefined ? {} : { store }),
    workspace: workspace.directory,
    folders: skillFoldersOf(config, workspace),
    names: config.skills?.toolNames ?? "id",
    logger,
    surroundings: {
      allowPrivate: reachableRanges(workspace.network.allowPrivate, config.skills ?? {}, process.env),
      readSecret: async (name) => (await secrets())?.get(name),
      sandbox,
      logger,
    },
  });
  offerings.add(new SkillOfferings(library));
  await library.reload();
  return library;
}
