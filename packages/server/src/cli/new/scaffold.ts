import { usageError } from "../cli-error.ts";
import type { ContractName } from "./contracts.ts";
import { defineScaffold } from "./define-scaffold.ts";
import { internalScaffold } from "./internal-scaffold.ts";
import { pluginScaffold } from "./plugin-scaffold.ts";
import { singleFileScaffold } from "./single-file-scaffold.ts";
import { toolboxScaffold } from "./toolbox-scaffold.ts";

/** A file to begin a tool with. */
export interface Scaffold {
  /** Below the folder of tools. */
  readonly file: string;
  readonly text: string;
  /** The name of the tool on the rack. */
  readonly tool: string;
}

export interface ScaffoldSurroundings {
  /** Whether the workspace has Zod installed. */
  readonly hasZod: boolean;
}

const simpleName = /^[A-Za-z][A-Za-z0-9_-]{0,59}$/;
const groupAndAction = /^([a-z][a-z0-9_]{0,24})\/([a-z][a-z0-9_]{0,24})$/;

/** What is wrong with a name for a contract; nothing when it can be used. */
export function nameProblem(contract: ContractName, name: string): string | undefined {
  if (contract === "internal") {
    return groupAndAction.test(name)
      ? undefined
      : `The name of an internal tool is GROUP/ACTION in small letters, digits and _, such as text/greet; "${name}" is not.`;
  }
  return simpleName.test(name)
    ? undefined
    : `A tool's name begins with a letter and has letters, digits, _ and - in it, such as greet; "${name}" is not one.`;
}

export function scaffold(contract: ContractName, name: string, surroundings: ScaffoldSurroundings): Scaffold {
  const problem = nameProblem(contract, name);
  if (problem !== undefined) throw usageError(problem);
  switch (contract) {
    case "internal": {
      const [, group, action] = groupAndAction.exec(name)!;
      return internalScaffold(group!, action!);
    }
    case "toolbox":
      return toolboxScaffold(name);
    case "define":
      return defineScaffold(name);
    case "plugin":
      return pluginScaffold(name, surroundings);
    case "single-file":
      return singleFileScaffold(name);
  }
}
