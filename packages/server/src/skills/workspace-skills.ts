import { resolve } from "node:path";
import type { Logger, ToolRegistry } from "@toolrack/core";
import { powerCheck, type ToolValues, Unapproved } from "../access/index.ts";
import type { Offerings } from "../calls/index.ts";
import type { Config, Workspace } from "../config/index.ts";
import { defined } from "../helpers/index.ts";
import type { Sandbox } from "../sandbox/index.ts";
import type { Store } from "../store/index.ts";
import type { SkillSurroundings } from "./checked-tool.ts";
import { SkillLibrary } from "./skill-library.ts";
import { SkillOfferings } from "./skill-offerings.ts";

interface SkillParts {
  readonly registry: ToolRegistry;
  readonly config: Config;
  readonly workspace: Workspace;
  /** Undefined when the workspace has no store yet. */
  readonly store: Store | undefined;
  readonly sandbox: () => Promise<Sandbox>;
  readonly openData: SkillSurroundings["openData"];
  readonly install: SkillSurroundings["install"];
  /** Whether nothing may be written into the workspace. */
  readonly isTemporary: boolean;
  readonly values: () => Promise<ToolValues | undefined>;
  readonly offerings: Offerings;
  /** Whether to wait for very many skills; see `SkillLibrary.open`. */
  readonly isPatient: boolean;
  readonly logger: Logger;
}

/** The absolute paths of a workspace's skill folders. */
export function skillFoldersOf({ skills = {} }: Config, directory: string): string[] {
  return (skills.folders ?? ["skills"]).map((folder) => resolve(directory, folder));
}

/** Puts the tools of a workspace's skills on the rack, and offers the skills themselves over MCP. */
export async function openSkills(parts: SkillParts): Promise<SkillLibrary> {
  const { registry, config, workspace, store, sandbox, openData, install, values, offerings, logger } = parts;
  const library = new SkillLibrary({
    registry,
    ...defined({ store }),
    workspace: workspace.directory,
    folders: skillFoldersOf(config, workspace.directory),
    unapproved: new Unapproved(workspace),
    names: config.skills?.toolNames ?? "id",
    isTemporary: parts.isTemporary,
    logger,
    surroundings: {
      allowPrivate: reachableRanges(workspace.network.allowPrivate, config.skills ?? {}, process.env),
      readValue: async (name, kind) => {
        const opened = await values();
        return kind === "secret" ? opened?.secrets.get(name) : opened?.getSetting(name);
      },
      sandbox,
      grants: config.sandbox?.grants ?? {},
      openData,
      async openFolders(granted) {
        if (granted.length === 0) return [];
        const [sandboxed, powerOf] = await Promise.all([
          import("../sandbox/index.ts"),
          powerCheck(workspace),
        ]);
        return sandboxed.openFolders(granted, workspace.directory, (path) => powerOf(path) !== undefined);
      },
      install,
      logger,
    },
  });
  offerings.add(new SkillOfferings(library));
  await library.open(parts);
  return library;
}

/**
 * Private networks of a company or a machine. Link-local addresses, where clouds hand out credentials, are not
 * included: the operator must name those.
 */
const privateRanges = [
  "127.0.0.0/8",
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "100.64.0.0/10",
  "::1/128",
  "fc00::/7",
];

/** The private networks that tools of skills may reach. */
export function reachableRanges(
  named: readonly string[],
  { allowPrivateNetwork = false }: { readonly allowPrivateNetwork?: boolean },
  environment: NodeJS.ProcessEnv,
): string[] {
  const isAllowed =
    allowPrivateNetwork || /^(1|true|yes|on)$/i.test(environment.TOOLRACK_ALLOW_PRIVATE_NETWORK ?? "");
  return isAllowed ? [...named, ...privateRanges] : [...named];
}
