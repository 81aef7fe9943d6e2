import type { ToolInfo } from "@toolrack/core";
import type { Command, Option } from "commander";
import { Cli } from "../cli.ts";
import { alternativesOf, describeType, follow, parametersOf, propertiesOf, valuesOf } from "../parameters.ts";
import { oneLine } from "../text.ts";
import { withApp } from "../workspace.ts";

/** `toolrack completion`: a script for a shell to source. */
export async function completion(cli: Cli, shell: Shell): Promise<void> {
  cli.print(completionScripts[shell]);
}

/** The hidden `toolrack __complete`: completions for a command line. It never fails; it only offers less. */
export async function complete(cli: Cli, program: Command, words: readonly string[]): Promise<void> {
  const loadTools = (directory: string | undefined) => {
    const where = new Cli(directory === undefined ? {} : { dir: directory }, cli.surroundings);
    return withApp(where, {}, async ({ registry }) => registry.list());
  };
  const found = await candidates(program, words, loadTools).catch(() => []);
  if (found.length > 0) cli.print(found.map(({ word, about }) => `${word}\t${about}`).join("\n"));
}

interface Candidate {
  readonly word: string;
  readonly about: string;
}

/** Loads the tools of the workspace that `--dir` names, or of the one that `findWorkspace` finds. */
type LoadTools = (directory: string | undefined) => Promise<readonly ToolInfo[]>;

/** An unfinished command line. The last word is the one to complete, and may be empty. */
interface Typed {
  readonly command: Command | undefined;
  readonly positional: readonly string[];
  /** Set when the last word is the value of this option. */
  readonly option: Option | undefined;
  readonly current: string;
  /** The value of `--dir`. */
  readonly directory: string | undefined;
}

/** The possible next words. Tools are loaded only when their names or arguments are needed. */
export async function candidates(
  program: Command,
  words: readonly string[],
  loadTools: LoadTools,
): Promise<Candidate[]> {
  const typed = understand(program, words);
  const all = await offer(program, typed, loadTools);
  return all.filter(({ word }) => word.startsWith(typed.current));
}

async function offer(program: Command, typed: Typed, loadTools: LoadTools): Promise<Candidate[]> {
  const { command, option, positional, current } = typed;
  if (option !== undefined) return (option.argChoices ?? []).map((word) => ({ word, about: "" }));
  if (current.startsWith("-")) return optionsOf(program, command);
  if (command === undefined) {
    const help = program.createHelp();
    return help.visibleCommands(program).map((one) => ({ word: one.name(), about: one.description() }));
  }
  const argument = command.registeredArguments[positional.length];
  if (argument?.argChoices !== undefined) return argument.argChoices.map((word) => ({ word, about: "" }));
  if (!["call", "show", "lint"].includes(command.name())) return [];
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

/** The scripts ask the hidden command `__complete`, which answers with lines of `word<TAB>what it is`. */
export const completionScripts = {
  bash: `# Add to ~/.bashrc:  source <(toolrack completion bash)
_toolrack() {
  local line="\${COMP_LINE:0:COMP_POINT}" current prefix word
  local -a words
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  current="\${words[\${#words[@]}-1]}"
  # bash begins a new word after = and :, so what stands before them must not be offered again.
  prefix="\${current%"\${current##*[=:]}"}"
  COMPREPLY=()
  while IFS=$'\\t' read -r word _; do
    COMPREPLY+=("\${word#"$prefix"}")
  done < <(toolrack __complete -- "\${words[@]:1}" 2>/dev/null)
  [[ \${#COMPREPLY[@]} -eq 1 && \${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o default -F _toolrack toolrack
`,
  zsh: `#compdef toolrack
# Add to ~/.zshrc after compinit:  source <(toolrack completion zsh)
_toolrack() {
  local line word about
  local -a plain open
  for line in "\${(@f)$(toolrack __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -z $line ]] && continue
    word="\${line%%$'\\t'*}"
    about="\${line#*$'\\t'}"
    if [[ $word == *= ]]; then open+=("$word"); else plain+=("\${word//:/\\\\:}:$about"); fi
  done
  if (( \${#plain} + \${#open} == 0 )); then _files; return; fi
  (( \${#plain} )) && _describe -V toolrack plain
  (( \${#open} )) && compadd -S '' -- "\${open[@]}"
}
compdef _toolrack toolrack
`,
  fish: `# Save as ~/.config/fish/completions/toolrack.fish
function __toolrack_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  toolrack __complete -- $words[2..-1] "$current" 2>/dev/null
end
complete -c toolrack -f -a '(__toolrack_complete)'
complete -c toolrack -s o -l output -r -F
`,
} as const;

export type Shell = keyof typeof completionScripts;
