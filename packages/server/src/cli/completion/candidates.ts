import type { ToolInfo } from "@toolrack/core";
import type { Command, Option } from "commander";
import { describeType } from "../arguments/describe-type.ts";
import { alternativesOf, follow, parametersOf, propertiesOf, valuesOf } from "../arguments/schema-parts.ts";
import { oneLine } from "../text/printable.ts";

export interface Candidate {
  readonly word: string;
  readonly about: string;
}

/** A command line that is being typed; the last word is the one to complete, and may be empty. */
interface Typed {
  readonly command: Command | undefined;
  readonly positional: readonly string[];
  /** The option whose value the last word is. */
  readonly option: Option | undefined;
  readonly current: string;
  /** What `--dir` said. */
  readonly directory: string | undefined;
}

/** The words that may come next. Tools are loaded only when one of their names or arguments is wanted. */
export async function candidates(
  program: Command,
  words: readonly string[],
  loadTools: (directory: string | undefined) => Promise<readonly ToolInfo[]>,
): Promise<Candidate[]> {
  const typed = understand(program, words);
  const all = await offer(program, typed, loadTools);
  return all.filter(({ word }) => word.startsWith(typed.current));
}

async function offer(
  program: Command,
  typed: Typed,
  loadTools: (directory: string | undefined) => Promise<readonly ToolInfo[]>,
): Promise<Candidate[]> {
  const { command, option, positional, current } = typed;
  if (option !== undefined) return (option.argChoices ?? []).map((word) => ({ word, about: "" }));
  if (current.startsWith("-")) return optionsOf(program, command);
  if (command === undefined) {
    const help = program.createHelp();
    return help.visibleCommands(program).map((one) => ({ word: one.name(), about: one.description() }));
  }
  const argument = command.registeredArguments[positional.length];
  if (argument?.argChoices !== undefined) return argument.argChoices.map((word) => ({ word, about: "" }));
  if (command.name() !== "call" && command.name() !== "show") return [];
  const [name] = positional;
  const tools = name === undefined || command.name() === "call" ? await loadTools(typed.directory) : [];
  if (name === undefined)
    return tools.map((info) => ({ word: info.name, about: oneLine(info.description ?? "") }));
  const tool = tools.find((info) => info.name === name || info.aliases?.includes(name) === true);
  return tool === undefined ? [] : argumentsOf(tool);
}

function understand(program: Command, words: readonly string[]): Typed {
  const current = words.at(-1) ?? "";
  let command: Command | undefined;
  let option: Option | undefined;
  let directory: string | undefined;
  const positional: string[] = [];
  for (const word of words.slice(0, -1)) {
    if (option !== undefined) {
      if (option.long === "--dir") directory = word;
      option = undefined;
    } else if (word.startsWith("-")) {
      const known = [...program.options, ...(command?.options ?? [])].find(
        ({ long, short }) => word === long || word === short,
      );
      option = known?.required === true ? known : undefined;
    } else if (command === undefined) {
      command = program.commands.find((one) => one.name() === word);
    } else {
      positional.push(word);
    }
  }
  return { command, positional, option, current, directory };
}

function optionsOf(program: Command, command: Command | undefined): Candidate[] {
  const help = program.createHelp();
  const options = [
    ...(command === undefined ? [] : help.visibleOptions(command)),
    ...help.visibleOptions(program),
  ];
  const words = options.map(({ long, description }) => ({ word: long ?? "", about: description }));
  return [...new Map(words.map((candidate) => [candidate.word, candidate])).values()];
}

/** `key=`, or `key=value` for each value where the schema lists them. */
function argumentsOf(tool: ToolInfo): Candidate[] {
  const root = parametersOf(tool);
  return propertiesOf(follow(root, root), root).flatMap(({ name, schema }) => {
    const about = oneLine(
      typeof schema.description === "string" ? schema.description : describeType(schema, root),
    );
    const values = alternativesOf(schema, root).flatMap(valuesOf);
    const words = values.length === 0 ? [`${name}=`] : values.map((value) => `${name}=${String(value)}`);
    return words.map((word) => ({ word, about }));
  });
}
